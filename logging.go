package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"mete/config"
)

// newLogger opens the log. The returned function writes what is still
// buffered, and closes the file.
func newLogger(c config.Log) (zerolog.Logger, func(), error) {
	level, err := newLogLevel(c.Level)
	if err != nil {
		return zerolog.Logger{}, nil, err
	}
	file, closeFile := os.Stderr, func() {}
	if c.File != "" {
		if file, err = os.OpenFile(c.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640); err != nil {
			return zerolog.Logger{}, nil, fmt.Errorf("log.file: %w", err)
		}
		closeFile = func() { _ = file.Close() }
	}
	zerolog.TimeFieldFormat = zerolog.TimeFormatUnixMs
	zerolog.DurationFieldUnit = time.Millisecond
	if c.Format == "console" || c.Format == "auto" && isTerminal(file) {
		console := zerolog.ConsoleWriter{Out: file, TimeFormat: time.TimeOnly}
		return zerolog.New(console).Sample(level).With().Timestamp().Logger(), closeFile, nil
	}
	lines := newLineWriter(file)
	closeLog := func() { lines.close(); closeFile() }
	return zerolog.New(lines).Sample(level).With().Timestamp().Logger(), closeLog, nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	lineBuffer = 64 << 10               // bytes
	lineDelay  = 100 * time.Millisecond // that a line may wait at most
)

// lineWriter gathers log lines, because a system call for each would cost more
// than everything else that is done for it. What is worth a warning is written
// at once, with all that came before.
type lineWriter struct {
	mu   sync.Mutex
	out  io.Writer
	buf  []byte
	stop chan struct{}
	done sync.WaitGroup
}

func newLineWriter(out io.Writer) *lineWriter {
	w := &lineWriter{out: out, buf: make([]byte, 0, lineBuffer), stop: make(chan struct{})}
	w.done.Go(w.run)
	return w
}

// WriteLevel implements zerolog.LevelWriter.
func (w *lineWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf)+len(line) > lineBuffer {
		w.flush() // whole lines only: others may write to the file too
	}
	w.buf = append(w.buf, line...)
	if level >= zerolog.WarnLevel {
		w.flush()
	}
	return len(line), nil
}

// Write implements io.Writer, for lines without a level.
func (w *lineWriter) Write(line []byte) (int, error) {
	return w.WriteLevel(zerolog.WarnLevel, line)
}

func (w *lineWriter) run() {
	tick := time.NewTicker(lineDelay)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flushNow()
		case <-w.stop:
			w.flushNow()
			return
		}
	}
}

func (w *lineWriter) flushNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

// flush writes what is buffered. What cannot be written is dropped: a full disk
// must not stop the gateway, nor the log once there is room again.
func (w *lineWriter) flush() {
	if len(w.buf) > 0 {
		_, _ = w.out.Write(w.buf)
		w.buf = w.buf[:0]
	}
}

func (w *lineWriter) close() {
	close(w.stop)
	w.done.Wait()
}
