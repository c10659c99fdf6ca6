package sim

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Replica is a running simulated server.
type Replica struct {
	cfg     Config
	addr    string // host:port, kept while the listener is closed
	started time.Time
	profile Profile // of the engines; its zero value in instant mode
	engines []*pacer
	meters  meters
	script  atomic.Pointer[func(*Request, net.Conn) error]
	store   responseStore

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	conns    map[*conn]struct{}
	fault    Fault
	until    *time.Timer // clears fault
	stopped  bool
	closing  chan struct{}
	tasks    sync.WaitGroup
}

var errClosing = errors.New("replica is closing")

// Start opens the listener and serves until Close or Kill.
func Start(cfg Config) (*Replica, error) {
	r := &Replica{cfg: cfg.withDefaults(), started: time.Now(), conns: map[*conn]struct{}{}, closing: make(chan struct{})}
	r.meters.init()
	if cfg.Profile != nil {
		r.profile = cfg.Profile.withDefaults()
		if have := r.profile.Blocks * r.profile.BlockSize; have < r.cfg.MaxModelLen {
			return nil, fmt.Errorf("simulated replica: max model length of %d tokens does not fit into a kv cache of %d", r.cfg.MaxModelLen, have)
		}
	}
	if cfg.Script != nil {
		r.script.Store(&cfg.Script)
	}
	l, err := net.Listen("tcp", r.cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("simulated replica: %w", err)
	}
	r.addr = l.Addr().String()
	r.serve(l)
	if cfg.Profile != nil {
		for i := range r.cfg.Engines {
			p := r.profile
			p.Seed += r.cfg.Seed + uint64(i)
			r.engines = append(r.engines, startPacer(NewEngine(p), r.started, &r.tasks))
		}
	}
	return r, nil
}

// Addr returns host:port.
func (r *Replica) Addr() string { return r.addr }

// URL returns http://host:port, without a path.
func (r *Replica) URL() string { return "http://" + r.Addr() }

// SetScript changes Config.Script; nil removes it.
func (r *Replica) SetScript(script func(*Request, net.Conn) error) {
	if script == nil {
		r.script.Store(nil)
		return
	}
	r.script.Store(&script)
}

// closeGrace is how long Close waits for clients to take their last bytes.
const closeGrace = 2 * time.Second

// Close stops as vLLM does on SIGTERM with its default time-out: no new
// connections, running streams end with the finish reason "abort", and then
// every connection is closed. It returns when all goroutines have ended.
func (r *Replica) Close() error {
	if !r.stop() {
		return nil
	}
	grace := time.Now().Add(closeGrace)
	r.mu.Lock()
	for c := range r.conns {
		_ = c.tcp.SetDeadline(grace) // a client that does not read cannot hold us
		c.stopIdle()
	}
	r.mu.Unlock()
	r.finish()
	return nil
}

// Kill stops as a process that is killed on a machine that stays up: every
// connection is reset at once.
func (r *Replica) Kill() {
	if !r.stop() {
		return
	}
	r.mu.Lock()
	for c := range r.conns {
		if tcp, ok := c.tcp.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.tcp.Close()
	}
	r.mu.Unlock()
	r.finish()
}

func (r *Replica) stop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.stopped = true
	if r.until != nil {
		r.until.Stop()
	}
	r.closeListener()
	close(r.closing)
	return true
}

func (r *Replica) finish() {
	for _, p := range r.engines {
		p.stop()
	}
	r.tasks.Wait()
}

// SetFault makes the replica fail from the next request on; the zero Fault
// ends it. Refuse closes the listener at once.
func (r *Replica) SetFault(f Fault) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return errClosing
	}
	if r.until != nil {
		r.until.Stop()
		r.until = nil
	}
	r.fault = f
	r.setSpeed(f)
	if f.For > 0 && (f.Kind == Refuse || f.Kind == Dead) {
		r.until = time.AfterFunc(f.For, func() { _ = r.SetFault(Fault{}) })
	}
	if f.Kind == Refuse {
		r.closeListener()
		return nil
	}
	return r.reopen()
}

// reopen ends a Refuse. Somebody else may have taken the port meanwhile.
func (r *Replica) reopen() error {
	if r.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return fmt.Errorf("simulated replica: %w", err)
	}
	r.serve(l)
	return nil
}

// setSpeed makes a Slow fault the engines' own: they take Factor times as long.
func (r *Replica) setSpeed(f Fault) {
	speed := r.profile.Speed
	if f.Kind == Slow {
		speed /= f.Factor
	}
	for _, p := range r.engines {
		p.setSpeed(speed)
	}
}

// Fault returns the fault in force.
func (r *Replica) Fault() Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// takeFault returns the run-time fault for a request to path and counts it.
func (r *Replica) takeFault(path string) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fault
	if f.Path != "" && f.Path != path || f.Kind == Refuse || f.Kind == Slow && len(r.engines) > 0 {
		return Fault{}
	}
	if f.Times == 1 {
		r.fault = Fault{}
	} else if f.Times > 1 {
		r.fault.Times--
	}
	return f
}

func (r *Replica) serve(l net.Listener) {
	r.listener = l
	r.tasks.Add(1)
	go r.accept(l)
}

func (r *Replica) closeListener() {
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
}

func (r *Replica) accept(l net.Listener) {
	defer r.tasks.Done()
	for {
		tcp, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors: the next try may fare better
			time.Sleep(5 * time.Millisecond)
			continue
		}
		r.add(tcp)
	}
}

func (r *Replica) add(tcp net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		_ = tcp.Close()
		return
	}
	c := newConn(r, tcp)
	r.conns[c] = struct{}{}
	r.meters.accepted.Add(1)
	r.tasks.Add(2)
	go c.read()
	go c.serve()
}

func (r *Replica) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
