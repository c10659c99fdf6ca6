package overhead

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mete/bench/load"
)

// Proxy is one of the ways to the replicas.
type Proxy struct {
	Name   string
	Target load.Target
	proc   *process // nil for direct and for a proxy that somebody else runs
	admin  string   // host:port of a gateway's admin listener
	fresh  int64    // bytes resident before the first request
}

// names of the ways that get a special part in the results.
const (
	direct = "direct"
	gate   = "mete"
	nginx  = "nginx"
)

// lab is everything that runs.
type lab struct {
	o          Options
	dir        string
	proxy      place // of the proxies
	rest       place // of everything else
	processes  []*process
	replicas   []string // host:port
	redis      string   // host:port, empty without one
	keys       []string
	few        []string // of them, for all but the big case
	pepper     string
	static     string // the static key
	proxies    []*Proxy
	big        *Proxy // the gateway of the big case, once it was asked for
	observers  *observers
	closers    []func()
	rate       float64 // of streams a second, at which the gateway uses half a core
	round      int
	experiment string // under way
	requests   requests
	skipped    []string // what is not installed
	notes      []string
}

// place is where a process runs: on a core (-1 for any), with a niceness.
type place struct{ core, nice int }

func openLab(ctx context.Context, o Options) (l *lab, err error) {
	l = &lab{o: o, proxy: place{-1, o.Nice}, rest: place{-1, o.Nice}}
	if l.dir, err = os.MkdirTemp("", "mete-overhead-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if all := cores(); o.Pin && len(all) > 1 {
		l.proxy.core, l.rest.core = all[len(all)-1], all[0]
	}
	for _, step := range []func(context.Context) error{l.openReplicas, l.openRedis, l.makeKeys, l.openProxies} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *lab) close() {
	for _, f := range l.closers {
		f()
	}
	for i := len(l.processes) - 1; i >= 0; i-- {
		l.processes[i].end()
	}
	_ = os.RemoveAll(l.dir)
}

// launch starts a process of the laboratory and waits until it accepts
// connections at address.
func (l *lab) launch(ctx context.Context, name string, where place, address string, argv ...string) (*process, error) {
	p, err := launch(l.dir, name, where, nil, argv...)
	if err != nil {
		return nil, err
	}
	l.processes = append(l.processes, p)
	if err := awaitPort(ctx, p, address); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.tail())
	}
	p.again = func(ctx context.Context) (*process, error) { return l.launch(ctx, name, where, address, argv...) }
	return p, nil
}

// restart replaces the proxy's process by a fresh one, whose memory is not yet
// what other experiments have made of it.
func (p *Proxy) restart(ctx context.Context) (err error) {
	p.proc.end()
	if p.proc, err = p.proc.again(ctx); err == nil {
		p.fresh = p.resident()
	}
	return err
}

const startTimeout = 60 * time.Second

func awaitPort(ctx context.Context, p *process, address string) error {
	return await(ctx, p, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// await asks again and again; a starting process has no event for us.
func await(ctx context.Context, p *process, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.exited:
			return errors.New("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-tick.C:
			if ready() {
				return nil
			}
		}
	}
}

func (l *lab) openReplicas(ctx context.Context) error {
	addresses, err := l.startReplicas(ctx, "replicas", l.o.Replicas)
	l.replicas = addresses
	return err
}

func (l *lab) startReplicas(ctx context.Context, name string, n int) ([]string, error) {
	argv := append(append([]string{}, l.o.Command...), "bench", "replicas", "--count", fmt.Sprint(n))
	p, err := launch(l.dir, name, l.rest, []string{fmt.Sprintf("GOGC=%d", rarely)}, argv...)
	if err != nil {
		return nil, err
	}
	p.aside = true
	l.processes = append(l.processes, p)
	var addresses []string
	err = await(ctx, p, func() bool {
		b, _ := os.ReadFile(p.output)
		addresses = addresses[:0]
		for _, line := range strings.SplitAfter(string(b), "\n") {
			if u, err := url.Parse(strings.TrimSpace(line)); err == nil && u.Host != "" && strings.HasSuffix(line, "\n") {
				addresses = append(addresses, u.Host)
			}
		}
		return len(addresses) == n
	})
	if err != nil {
		return nil, fmt.Errorf("replicas: %w\n%s", err, p.tail())
	}
	return addresses, nil
}

// openProxies starts what is installed.
func (l *lab) openProxies(ctx context.Context) error {
	l.proxies = append(l.proxies, l.newProxy(direct, l.replicas[0], nil))
	for _, open := range []struct {
		name  string
		start func(context.Context) error
	}{{nginx, l.openNginx}, {"haproxy", l.openHAProxy}} {
		if _, err := exec.LookPath(open.name); err != nil {
			l.skipped = append(l.skipped, open.name)
			continue
		}
		if err := open.start(ctx); err != nil {
			return err
		}
	}
	if err := l.openGateway(ctx); err != nil {
		return err
	}
	for name, base := range l.o.Others {
		target, err := load.ParseTarget(base)
		if err != nil {
			return err
		}
		target.Keys = l.few
		l.proxies = append(l.proxies, &Proxy{Name: name, Target: target})
	}
	return nil
}

func (l *lab) newProxy(name, address string, p *process) *Proxy {
	made := &Proxy{Name: name, proc: p, Target: load.Target{Address: address, Host: address, Prefix: "/v1", Keys: l.few}}
	if p != nil {
		made.fresh, _ = p.resident()
	}
	return made
}

// restCPU is the processor time of all that is not a proxy.
func (l *lab) restCPU() time.Duration {
	sum := ownCPU()
	for _, p := range l.processes {
		if p.aside {
			d, _ := p.cpu()
			sum += d
		}
	}
	return sum
}

// write puts a configuration file into the laboratory's folder.
func (l *lab) write(name, text string) (path string, err error) {
	path = filepath.Join(l.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// freeAddress is a loopback address that nobody listened on a moment ago.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String(), nil
}
