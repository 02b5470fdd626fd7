package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
)

// Names are the streams and buckets of one installation, derived from the subject prefix
// (TOOLWIRE_CALLS, toolwire_turns, …). This file is the only place that spells them.
type Names struct{ events.Subjects }

// CallsStream holds the turns that agents submitted.
func (n Names) CallsStream() string { return n.stream("CALLS") }

// JournalStream holds the facts of every call: started, settled, judged, decided.
func (n Names) JournalStream() string { return n.stream("JOURNAL") }

// WorkStream holds the calls that wait for workers.
func (n Names) WorkStream() string { return n.stream("WORK") }

// QuestionsStream holds the open questions to people and other systems.
func (n Names) QuestionsStream() string { return n.stream("QUESTIONS") }

// InboxStream holds what is said to dispatchers: answers, cancels, steps and suspensions.
func (n Names) InboxStream() string { return n.stream("INBOX") }

// TimersStream holds message schedules and what they fire.
func (n Names) TimersStream() string { return n.stream("TIMERS") }

// BodiesStream holds pieces of bodies too large for an event.
func (n Names) BodiesStream() string { return n.stream("BODIES") }

// StateStream holds documents that tools keep per session.
func (n Names) StateStream() string { return n.stream("STATE") }

// DeadStream holds messages that could not be handled.
func (n Names) DeadStream() string { return n.stream("DEAD") }

// HistoryStream holds the replayable record of every session.
func (n Names) HistoryStream() string { return n.stream("HISTORY") }

// RegistryBucket holds tool definitions. As all buckets, only dispatchers write it (design §2:
// whoever may write one key of a bucket can empty it).
func (n Names) RegistryBucket() string { return n.bucket("registry") }

// SessionsBucket holds the session records.
func (n Names) SessionsBucket() string { return n.bucket("sessions") }

// TurnsBucket holds the records of staged turns.
func (n Names) TurnsBucket() string { return n.bucket("turns") }

// SettingsBucket holds the declared configuration.
func (n Names) SettingsBucket() string { return n.bucket("config") }

func (n Names) stream(s string) string { return strings.ToUpper(n.Prefix()) + "_" + s }
func (n Names) bucket(s string) string { return n.Prefix() + "_" + s }

// StreamOf names the stream that stores subject, "" if none does.
func (n Names) StreamOf(subject string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(subject, n.Prefix()+"."), ".")
	switch kind {
	case "call":
		return n.CallsStream()
	case "start", "result", "judged", "decided":
		return n.JournalStream()
	case "work":
		return n.WorkStream()
	case "require":
		return n.QuestionsStream()
	case "answer", "cancel", "step", "suspend":
		return n.InboxStream()
	case "timer", "due":
		return n.TimersStream()
	case "body":
		return n.BodiesStream()
	case "state":
		return n.StateStream()
	case "dead":
		return n.DeadStream()
	}
	return ""
}

// Answerable says whether an answer may be published to a subject that whoever asked has named. It goes
// out with the rights of this process: under a subject of the server's or of the installation's it would
// not be an answer, but an order, a bucket's entry or a fact.
func (n Names) Answerable(reply string) bool {
	return reply != "" && reply[0] != '$' && !strings.HasPrefix(reply, n.Prefix()+".")
}

// Durable consumers.
const (
	IntakeConsumer  = "intake"  // on CALLS, shared by all dispatchers
	CancelConsumer  = "cancel"  // on INBOX
	StepConsumer    = "step"    // on INBOX
	AnswerConsumer  = "answer"  // on INBOX
	SuspendConsumer = "suspend" // on INBOX
	DueConsumer     = "due"     // on TIMERS
)

// SessionAge is how long the record of a session that is not used is kept.
const SessionAge = 30 * 24 * time.Hour

// Lease is how long a delivered message stays with a process that says nothing;
// [Delivery.InProgress] renews it. A dead worker's call moves on after it.
const Lease = 10 * time.Second

// Config says how the streams are kept. The zero value suits one embedded server.
type Config struct {
	Replicas   int           // 0: 1. A cluster wants 3.
	Memory     bool          // keep everything in memory (benchmarks); default: files
	NoHistory  bool          // do not keep the replayable record
	HistoryAge time.Duration // 0: 30 days
	BodyAge    time.Duration // 0: 8 days; longer than the longest expiry of a question
	MaxBytes   int64         // size limit of CALLS, WORK and JOURNAL each; 0: 4 GiB
}

func (c Config) withDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.HistoryAge == 0 {
		c.HistoryAge = 30 * 24 * time.Hour
	}
	if c.BodyAge == 0 {
		c.BodyAge = 8 * 24 * time.Hour
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 4 << 30
	}
	return c
}

// Streams are all streams of the installation (design §2), with who writes → who reads each.
func (n Names) Streams(c Config) []jetstream.StreamConfig {
	c = c.withDefaults()
	live := func(kinds string) *jetstream.RePublish {
		return &jetstream.RePublish{Source: n.Under(kinds), Destination: n.Prefix() + ".live." + kinds + ".>"}
	}
	once := func(s jetstream.StreamConfig) jetstream.StreamConfig {
		s.MaxMsgsPerSubject, s.Discard, s.DiscardNewPerSubject = 1, jetstream.DiscardNew, true
		return s
	}
	all := []jetstream.StreamConfig{
		// agents → dispatchers. A flood is refused at the publisher; nothing accepted is evicted.
		once(jetstream.StreamConfig{Name: n.CallsStream(), Subjects: []string{n.Under("call")}, MaxBytes: c.MaxBytes}),
		// workers, dispatchers → anyone, through the live copy.
		once(jetstream.StreamConfig{
			Name: n.JournalStream(), MaxBytes: c.MaxBytes,
			Subjects:  []string{n.Under("start"), n.Under("result"), n.Under("judged"), n.Under("decided")},
			RePublish: &jetstream.RePublish{Source: n.Prefix() + ".>", Destination: n.Prefix() + ".live.>"},
		}),
		// dispatchers → workers of a pool.
		once(jetstream.StreamConfig{
			Name: n.WorkStream(), Subjects: []string{n.Under("work")}, MaxBytes: c.MaxBytes,
			Retention: jetstream.WorkQueuePolicy, AllowDirect: true,
		}),
		// dispatchers → approvers and other systems; its content is the list of open questions.
		once(jetstream.StreamConfig{Name: n.QuestionsStream(), Subjects: []string{n.Under("require")}, RePublish: live("require"), AllowDirect: true}),
		// agents, workers, approvers → dispatchers. Only what a consumer takes: anything else would stay for
		// ever, and nothing older than it may be forgotten.
		{
			Name: n.InboxStream(), Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
			Subjects: []string{n.Under("answer"), n.Under("cancel"), n.Under("step"), n.Under("suspend")},
		},
		// dispatchers only. Never any age or size limit: a limit deletes timers unfired.
		{
			Name: n.TimersStream(), Subjects: []string{n.Under("timer"), n.Under("due")},
			Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true,
		},
		// whoever sends a body too large for an event → whoever has its id. A body never changes: results
		// and staged turns rest on it.
		once(jetstream.StreamConfig{Name: n.BodiesStream(), Subjects: []string{n.Under("body")}, MaxAge: c.BodyAge, AllowDirect: true}),
		// workers → workers: documents of tools, compare-and-set by expected sequence.
		{Name: n.StateStream(), Subjects: []string{n.Under("state")}, MaxMsgsPerSubject: 1},
		// dispatchers, workers → operators.
		{Name: n.DeadStream(), Subjects: []string{n.Under("dead")}, MaxAge: 30 * 24 * time.Hour, AllowDirect: true},
	}
	if !c.NoHistory {
		p := n.Prefix()
		all = append(all, jetstream.StreamConfig{
			Name: n.HistoryStream(), MaxAge: c.HistoryAge, Compression: jetstream.S2Compression,
			Sources: []*jetstream.StreamSource{
				{Name: n.CallsStream(), SubjectTransforms: []jetstream.SubjectTransformConfig{
					{Source: p + ".call.*.*.*", Destination: p + ".history.{{wildcard(2)}}"},
				}},
				{Name: n.JournalStream(), SubjectTransforms: []jetstream.SubjectTransformConfig{
					{Source: p + ".start.*.*.*", Destination: p + ".history.{{wildcard(1)}}"},
					{Source: p + ".result.*.*.*", Destination: p + ".history.{{wildcard(1)}}"},
					{Source: p + ".judged.*.*.*.*.*.*", Destination: p + ".history.{{wildcard(1)}}"},
					{Source: p + ".decided.*.*.*.*", Destination: p + ".history.{{wildcard(1)}}"},
				}},
			},
		})
	}
	for i := range all {
		all[i].Replicas = c.Replicas
		if c.Memory {
			all[i].Storage, all[i].Compression = jetstream.MemoryStorage, jetstream.NoCompression
		}
	}
	return all
}

// Buckets are the key-value buckets, as the streams that they are. What decides (sessions,
// turns) is read from the leader, so direct reads are off there unless there is one copy only; and
// its entries are removed for good, not by a marker that stays.
func (n Names) Buckets(c Config) []jetstream.StreamConfig {
	c = c.withDefaults()
	bucket := func(name string, decides bool, age time.Duration) jetstream.StreamConfig {
		s := jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: !decides,
			AllowDirect: !decides || c.Replicas == 1, MaxAge: age, Replicas: c.Replicas,
		}
		if c.Memory {
			s.Storage = jetstream.MemoryStorage
		}
		return s
	}
	return []jetstream.StreamConfig{
		bucket(n.RegistryBucket(), false, 0),
		bucket(n.SettingsBucket(), false, 0),
		bucket(n.SessionsBucket(), true, SessionAge),
		bucket(n.TurnsBucket(), true, 0),
	}
}

// Ensure creates or updates every stream, bucket and shared consumer. It is safe to run
// at once from several processes, and needs the rights of a dispatcher.
// What stands in the way is explained with a cure ([ErrTopology]).
func Ensure(ctx context.Context, js jetstream.JetStream, n Names, c Config) error {
	c = c.withDefaults()
	for _, s := range append(n.Streams(c), n.Buckets(c)...) {
		if _, err := js.CreateOrUpdateStream(ctx, s); err != nil {
			return explain("stream "+s.Name, err)
		}
	}
	for _, shared := range []struct {
		stream string
		jetstream.ConsumerConfig
	}{
		{n.CallsStream(), jetstream.ConsumerConfig{Durable: IntakeConsumer}},
		{n.InboxStream(), jetstream.ConsumerConfig{Durable: CancelConsumer, FilterSubject: n.Under("cancel")}},
		{n.InboxStream(), jetstream.ConsumerConfig{Durable: StepConsumer, FilterSubject: n.Under("step")}},
		{n.InboxStream(), jetstream.ConsumerConfig{Durable: AnswerConsumer, FilterSubject: n.Under("answer")}},
		{n.InboxStream(), jetstream.ConsumerConfig{Durable: SuspendConsumer, FilterSubject: n.Under("suspend")}},
		{n.TimersStream(), jetstream.ConsumerConfig{Durable: DueConsumer, FilterSubject: n.Under("due")}},
	} {
		if err := ensureConsumer(ctx, js, shared.stream, shared.ConsumerConfig); err != nil {
			return err
		}
	}
	return nil
}

// EnsurePool creates or updates the consumer of one pool or lane. inFlight limits how many of
// its calls run at once over the whole fleet; 0 means no limit.
func EnsurePool(ctx context.Context, js jetstream.JetStream, n Names, pool string, inFlight int) error {
	if inFlight <= 0 {
		inFlight = -1
	}
	return ensureConsumer(ctx, js, n.WorkStream(), jetstream.ConsumerConfig{
		Durable: events.Token(pool), FilterSubject: n.WorkPool(pool), MaxAckPending: inFlight,
	})
}

func ensureConsumer(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig) error {
	c.AckPolicy, c.AckWait, c.MaxDeliver = jetstream.AckExplicitPolicy, Lease, -1
	if c.MaxAckPending == 0 {
		c.MaxAckPending = -1
	}
	c.MaxWaiting = 4096
	_, err := js.CreateOrUpdateConsumer(ctx, stream, c)
	return explain("consumer "+c.Durable+" of "+stream, err)
}

// ErrTopology is returned when a stream, bucket or consumer cannot be set up; its text names the cure.
var ErrTopology = errors.New("jet: streams cannot be set up")

func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	cure := ""
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		cure = "JetStream is off: start nats-server with -js, and enable it for this account"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoStreamResponse):
		cure = "no answer from JetStream: check that the server has a leader, and that this user may publish $JS.API.>"
	case errors.As(err, &api):
		cure = cureOf(api)
	}
	if cure == "" {
		return fmt.Errorf("%w: %s: %w", ErrTopology, what, err)
	}
	return fmt.Errorf("%w: %s: %w; %s", ErrTopology, what, err, cure)
}

func cureOf(e *jetstream.APIError) string {
	switch e.ErrorCode {
	case 10047, 10028, 10023:
		return "raise max_file_store of the server or account, or lower the limits of Toolwire"
	case 10074:
		return "fewer servers than replicas: set --replicas to at most the size of the cluster"
	case 10052, 10025, 10065:
		return "an existing stream or consumer of this name or these subjects is of another kind: " +
			"choose another --prefix, or remove it with `nats stream rm` if nothing needs it"
	}
	return ""
}
