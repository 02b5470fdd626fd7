package workers

// runners are goroutines that run tools, one call after the other. A tool may ignore the end of its
// context and be left behind, so it never runs on the goroutine that holds the delivery; but a
// goroutine per call would grow its stack each time, which shows at tens of thousands a second.
type runners struct {
	jobs chan func()
	stop chan struct{}
}

func newRunners() runners { return runners{jobs: make(chan func()), stop: make(chan struct{})} }

// run starts job on an idle runner, or on a new one if all are busy.
func (r runners) run(job func()) {
	select {
	case r.jobs <- job:
	default:
		go r.work(job)
	}
}

func (r runners) work(job func()) {
	for {
		job()
		select {
		case job = <-r.jobs:
		case <-r.stop:
			return
		}
	}
}

// end lets the idle ones go; a busy one goes when its tool returns.
func (r runners) end() { close(r.stop) }
