package overhead

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"mete/bench/load"
)

// Two gateways that differ in nothing but what they observe: metrics, an access
// log and a hundredth of the requests traced, or none of it.
const (
	seeing = "seeing-" + gate
	blind  = "blind-" + gate

	allOff = "log: {level: error, format: json}\nmetrics: {requests: false}\n"
)

// observers are those gateways.
type observers struct{ on, off *Proxy }

// turns is how often the two take turns within a round: the differences are
// small, and a shared machine is not the same for long.
const turns = 5

// runObserve measures short requests on both gateways in turn. What counts is
// the processor time that the one takes beyond the other.
func runObserve(ctx context.Context, l *lab, _ *Proxy) (map[string]float64, error) {
	if l.observers == nil {
		if err := l.openObservers(ctx); err != nil {
			return nil, err
		}
	}
	var on, off []float64
	for turn := range turns {
		for i := range 2 {
			p, to := l.observers.on, &on
			if (turn+i)%2 == 1 {
				p, to = l.observers.off, &off
			}
			m, err := l.measure(ctx, p, load.Options{Requests: l.requests.short, Concurrency: shortCallers}, l.o.Window/8, l.o.Window/2)
			if err != nil {
				return nil, err
			}
			*to = append(*to, m.figures(m.counters.Completed)["cpu_us"])
		}
	}
	with, _, _ := Median(on)
	without, _, _ := Median(off)
	return map[string]float64{"on": with, "off": without, "added": with - without}, nil
}

func (l *lab) openObservers(ctx context.Context) (err error) {
	collector, err := l.openCollector(ctx)
	if err != nil {
		return err
	}
	o := &observers{}
	traces := "trace: {url: \"http://" + collector + "/v1/traces\", sample: 0.01}\n"
	if o.on, err = l.startGateway(ctx, seeing, l.replicas, l.accessLog(seeing)+traces); err != nil {
		return err
	}
	if o.off, err = l.startGateway(ctx, blind, l.replicas, allOff); err != nil {
		return err
	}
	l.observers = o
	return nil
}

// openCollector takes spans, and drops them, until ctx ends.
func (l *lab) openCollector(_ context.Context) (address string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = server.Serve(ln) }()
	l.closers = append(l.closers, func() { _ = server.Close() })
	return ln.Addr().String(), nil
}
