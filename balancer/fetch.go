package balancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	dialTimeout = 500 * time.Millisecond
	idleTimeout = 3500 * time.Millisecond // below uvicorn's 5 s, so that it never closes first
	pageMost    = 8 << 20                 // bytes of an answer that are read
)

// statusError is an answer that says no.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// newClient makes a client of its own for each replica: a new one begins with a
// new connection, and nothing is shared that a hanging replica could hold.
func newClient(r *Replica) *http.Client {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		TLSClientConfig:     r.TLSConfig(),
	}
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

// get asks the replica. The page is valid until the next call.
func (w *watcher) get(ctx context.Context, path string, timeout time.Duration) (status int, page []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(timeout, w.interval))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.replica.URL+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Host = w.replica.Host
	if key := w.pool.options.Load().APIKey; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, plain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	w.page.Reset()
	if _, err := w.page.ReadFrom(http.MaxBytesReader(nil, resp.Body, pageMost)); err != nil {
		return 0, nil, plain(err)
	}
	return resp.StatusCode, w.page.Bytes(), nil
}

// noRedirect takes a redirect as the answer: a replica sends none.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// plain strips what net/http wraps around an error, since the reader knows the
// replica and the path already.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}
