package consultest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Mode is a way of Consul to be wrong.
type Mode int

// The ways of Consul to be wrong.
const (
	Fine   Mode = iota
	Fails       // answers 500
	Hangs       // answers never
	Empty       // answers with an empty list
	Half        // answers with the first half of the list
	Behind      // answers with an index that has gone back
	Broken      // answers with half of the JSON
)

// Faults is a layer before an agent that spoils the answers about services. It
// takes effect at once, also for queries that are under way.
type Faults struct {
	next http.Handler

	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed by the next change of mode
	served  int           // queries that came in the present mode
}

// NewFaults puts the layer before next.
func NewFaults(next http.Handler) *Faults {
	return &Faults{next: next, changed: make(chan struct{})}
}

// Set changes the mode.
func (f *Faults) Set(m Mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.served = m, 0
	close(f.changed)
	f.changed = make(chan struct{})
}

// Served is the number of queries that came in the present mode.
func (f *Faults) Served() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served
}

// ServeHTTP answers as the next handler does, or wrongly.
func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/health/") {
		f.next.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	mode, changed := f.mode, f.changed
	f.served++
	f.mu.Unlock()
	switch mode {
	case Fine:
		f.interruptible(w, r, changed)
	case Fails:
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
	case Hangs:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	default:
		f.spoil(w, r, mode)
	}
}

// interruptible cuts a query that is held back when the mode changes.
func (f *Faults) interruptible(w http.ResponseWriter, r *http.Request, changed <-chan struct{}) {
	record, done := httptest.NewRecorder(), make(chan struct{})
	go func() { f.next.ServeHTTP(record, r); close(done) }()
	select {
	case <-done:
		deliver(w, record, record.Body.Bytes())
	case <-changed:
		panic(http.ErrAbortHandler)
	}
}

func (f *Faults) spoil(w http.ResponseWriter, r *http.Request, mode Mode) {
	q := r.URL.Query()
	q.Del("index") // a wrong answer does not wait
	r.URL.RawQuery = q.Encode()
	record := httptest.NewRecorder()
	f.next.ServeHTTP(record, r)
	body := record.Body.Bytes()
	var list []json.RawMessage
	switch mode {
	case Empty:
		body = []byte("[]")
	case Half:
		if json.Unmarshal(body, &list) == nil {
			body, _ = json.Marshal(list[:len(list)/2])
		}
	case Behind:
		record.Header().Set("X-Consul-Index", "3")
	case Broken:
		body = bytes.TrimSpace(body)[:len(body)/2]
	}
	deliver(w, record, body)
}

func deliver(w http.ResponseWriter, record *httptest.ResponseRecorder, body []byte) {
	for name, values := range record.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(record.Code)
	_, _ = w.Write(body)
}
