package embed

import (
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// natsLog hands the server's own log on. What it calls notices are details to us.
type natsLog struct {
	log   zerolog.Logger
	fatal atomic.Pointer[string] // why the server gave up
}

func (l *natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *natsLog) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }

// Fatalf keeps the reason instead of ending the process: Start tells it to the caller.
func (l *natsLog) Fatalf(format string, v ...any) {
	why := fmt.Sprintf(format, v...)
	l.log.Error().Msg(why)
	l.fatal.Store(&why) // last: whoever sees it returns, and the log is complete then
}
