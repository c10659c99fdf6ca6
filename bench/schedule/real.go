package schedule

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Target is a real gateway in front of real servers of bench/sim.
type Target struct {
	URL   string // base, with /v1
	Model string
	Keys  []string // one for each caller, in turn
}

// RunReal sends the requests of a setup to a real gateway, when they are due by
// the clock, and keeps the same books as Run. It takes as long as the setup
// says. The answers' texts are not part of the next turn's prompt, as a
// simulated chat's are; of the pool's balance nothing is known.
func RunReal(ctx context.Context, s Setup, t Target) (Metrics, error) {
	w := &world{Setup: s}
	w.books = newBooks(w)
	l := &live{w: w, target: t, news: make(chan func(), 1024), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.drain()
		l.client.CloseIdleConnections()
	}()
	w.gateways = []*gateway{{w: w, post: func(r *request) { l.send(ctx, r) }}}
	w.at(0, w.books.sample)
	w.at(s.Warm, w.books.open)
	(&traffic{w: w, load: s.Load}).start()
	if err := l.run(ctx, s.Warm+s.Window); err != nil {
		return Metrics{}, err
	}
	return w.books.close(), l.failed
}

// live is a world that moves with the clock.
type live struct {
	w        *world
	target   Target
	client   *http.Client
	news     chan func() // from the exchanges, to be done by the one goroutine that owns the world
	underWay int
	failed   error // the first
}

func (l *live) run(ctx context.Context, end time.Duration) error {
	began := time.Now()
	for {
		due := end
		if len(l.w.events) > 0 {
			due = min(due, l.w.events[0].at)
		}
		timer := time.NewTimer(due - time.Since(began))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case heard := <-l.news:
			timer.Stop()
			l.w.now = time.Since(began)
			heard()
		case <-timer.C:
			l.w.now = time.Since(began)
			if l.w.now >= end {
				return nil
			}
			if len(l.w.events) > 0 && l.w.events[0].at <= l.w.now {
				heap.Pop(&l.w.events).(event).do()
			}
		}
	}
}

// drain waits for the exchanges to end.
func (l *live) drain() {
	for l.underWay > 0 {
		(<-l.news)()
	}
}

// send posts a request and tells the world what comes of it.
func (l *live) send(ctx context.Context, r *request) {
	key := l.target.Keys[r.caller%len(l.target.Keys)]
	l.underWay++
	go func() {
		cached, err := l.exchange(ctx, key, r)
		l.news <- func() {
			l.underWay--
			switch {
			case ctx.Err() != nil: // the run is over
			case err != nil:
				if l.failed == nil {
					l.failed = err
				}
			default:
				l.w.books.finished(r)
				l.w.books.hit(cached)
				if r.then != nil {
					r.then()
				}
			}
		}
	}()
}

func (l *live) exchange(ctx context.Context, key string, r *request) (cached int, err error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, l.target.URL+"/chat/completions", bytes.NewReader(l.body(r)))
	if err != nil {
		return 0, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Authorization", "Bearer "+key)
	answer, err := l.client.Do(post)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	if answer.StatusCode != http.StatusOK {
		lines.Scan()
		return 0, fmt.Errorf("status %d: %s", answer.StatusCode, lines.Bytes())
	}
	first := true
	for lines.Scan() {
		if first && len(lines.Bytes()) > 0 {
			first = false
			l.news <- func() { l.w.books.firstToken(r, 0) }
		}
		if _, n, ok := bytes.Cut(lines.Bytes(), []byte(`"cached_tokens":`)); ok {
			end := bytes.IndexByte(n, '}')
			cached, _ = strconv.Atoi(string(n[:max(end, 0)]))
		}
	}
	return cached, lines.Err()
}

// body writes the request. A word is one token to bench/sim.
func (l *live) body(r *request) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	own := r.prompt
	if shared := min(r.sharedTokens, r.prompt-1); shared > 0 {
		messages = append(messages, message{"system", words(r.shared, shared)})
		own -= shared
	}
	messages = append(messages, message{"user", words(r.own, own)})
	b, err := json.Marshal(map[string]any{
		"model": l.target.Model, "stream": true, "stream_options": map[string]bool{"include_usage": true},
		"max_tokens": r.output, "ignore_eos": true, "messages": messages,
	})
	if err != nil {
		panic(err) // plain data
	}
	return b
}

// words are n words of four letters; more of them begin with the same ones.
func words(seed uint64, n int) string {
	b := make([]byte, 0, 5*n)
	for i := range uint64(n) {
		x := mix(seed + i)
		for shift := range 4 {
			b = append(b, 'a'+byte(x>>(8*shift))%26)
		}
		b = append(b, ' ')
	}
	return string(b)
}
