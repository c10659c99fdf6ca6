package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// logLevel is the least important level that is logged. It may be changed
// while others log.
type logLevel struct{ least atomic.Int32 }

func newLogLevel(name string) (*logLevel, error) {
	l := &logLevel{}
	return l, l.set(name)
}

// Sample implements zerolog.Sampler: a logger's own level is fixed.
func (l *logLevel) Sample(level zerolog.Level) bool { return level >= zerolog.Level(l.least.Load()) }

// set changes the level to trace, debug, info, warn or error.
func (l *logLevel) set(name string) error {
	level, err := zerolog.ParseLevel(name)
	if err != nil || level < zerolog.TraceLevel || level > zerolog.ErrorLevel || name == "" {
		return fmt.Errorf("log.level: %q is not a level; there are trace, debug, info, warn, error", name)
	}
	l.least.Store(int32(level))
	return nil
}

func (l *logLevel) String() string { return zerolog.Level(l.least.Load()).String() }

// levelBody is what GET and PUT /admin/log-level speak.
type levelBody struct {
	Level string `json:"level"`
}

// showLogLevel answers GET /admin/log-level.
func (r *running) showLogLevel(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, levelBody{r.level.String()})
}

// changeLogLevel answers PUT /admin/log-level. The change lasts until the next
// one, or until the configuration is loaded again.
func (r *running) changeLogLevel(w http.ResponseWriter, request *http.Request) {
	var asked levelBody
	err := json.NewDecoder(http.MaxBytesReader(w, request.Body, 1<<10)).Decode(&asked)
	before := r.level.String()
	if err == nil {
		err = r.level.set(asked.Level)
	}
	if err != nil {
		adminError(w, http.StatusBadRequest, "invalid_value", `send {"level":"debug"}, or trace, info, warn, error`)
		return
	}
	r.log.WithLevel(zerolog.WarnLevel).Str("from", before).Str("to", asked.Level).Msg("log level was changed")
	r.showLogLevel(w, request)
}
