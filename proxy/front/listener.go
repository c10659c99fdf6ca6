package front

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mete/config"
)

// Reason says why a connection was refused.
type Reason string

// The reasons.
const (
	TooMany    Reason = "connections" // in all
	TooManyOne Reason = "address"     // from one address
	NoHeader   Reason = "no_header"   // of the PROXY protocol, which is required
	BadHeader  Reason = "bad_header"  // one that cannot be read, or did not come in time
	NoFile     Reason = "descriptors" // the process may open no more; they wait in the backlog
)

// Reasons are all of them.
func Reasons() []Reason { return []Reason{TooMany, TooManyOne, NoHeader, BadHeader, NoFile} }

// Bounds are how many connections may be open at one time; 0 is no bound.
type Bounds struct{ Connections, PerAddress int }

// Options say what connections have to pass.
type Options struct {
	TLS *tls.Config // nil: none
	// Balancers speak the PROXY protocol; HeaderRequired says that they always
	// do.
	Balancers      config.Proxies
	HeaderRequired bool
	HeaderTimeout  time.Duration
	// Bounds are asked for each connection.
	Bounds func() Bounds
	// Forwarders send the requests of many over connections of their own: these
	// are not counted by address. Nor are those from loopback.
	Forwarders func(netip.Addr) bool
	// Answer is what a client is told whose connection is one too many, as a
	// whole HTTP answer.
	Answer func(Reason) []byte
	// Wrap makes of a connection what the server is handed, below TLS. It must
	// close the connection when it is closed. Nil: the connection itself.
	Wrap func(*Conn) net.Conn
	// Refused counts. Nil: nobody does.
	Refused func(Reason)
}

// Listener hands out connections that have passed. It is a net.Listener.
type Listener struct {
	net.Listener
	options   Options
	addresses *Addresses
	open      atomic.Int64
	ready     chan net.Conn // never closed: connections may still be on their way
	ended     chan struct{} // accepting has
	closed    chan struct{}
	close     func() error
	refusing  chan struct{} // a place for each client that is being told

	mu      sync.Mutex
	pending map[*Conn]struct{} // whose header is being read
	err     error              // why accepting ended; read after ended is closed
}

// New begins to accept from inner. Close ends it. The addresses are counted in
// counts, which listeners may share.
func New(inner net.Listener, counts *Addresses, o Options) *Listener {
	l := &Listener{
		Listener: inner, options: o, addresses: counts,
		ready: make(chan net.Conn), ended: make(chan struct{}), closed: make(chan struct{}),
		refusing: make(chan struct{}, mostRefusing), pending: make(map[*Conn]struct{}),
	}
	l.close = sync.OnceValue(l.closeAll)
	go l.run()
	return l
}

// Open is how many connections are open now.
func (l *Listener) Open() int64 { return l.open.Load() }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close stops accepting. Connections that were handed out stay open.
func (l *Listener) Close() error { return l.close() }

func (l *Listener) closeAll() error {
	close(l.closed)
	err := l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.pending {
		_ = c.TCPConn.Close()
	}
	return err
}

// run accepts until the listener is closed or broken.
func (l *Listener) run() {
	defer close(l.ended)
	pause := firstPause
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			pause = firstPause
			l.admit(c)
		case !passing(err):
			l.err = err
			return
		default:
			l.rest(err, &pause)
		}
	}
}

// Pauses between attempts to accept while the process or the host lacks
// something: long enough that others can give it back.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// passing reports whether accepting may work again. Servers give up on these,
// and with them the gateway would.
func passing(err error) bool {
	for _, known := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func (l *Listener) rest(err error, pause *time.Duration) {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		l.refused(NoFile)
	}
	select {
	case <-time.After(*pause):
	case <-l.closed:
	}
	*pause = min(2**pause, lastPause)
}

// admit counts a connection and sees to its header, if it has one.
func (l *Listener) admit(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		l.hand(c)
		return
	}
	peer := addressOf(tcp.RemoteAddr())
	if most := l.options.Bounds().Connections; l.open.Add(1) > int64(most) && most > 0 {
		l.open.Add(-1)
		l.refuse(tcp, TooMany)
		return
	}
	conn := &Conn{TCPConn: tcp, of: l}
	if !l.options.Balancers.Trusts(peer) {
		l.enter(conn, peer)
		return
	}
	if !l.await(conn) {
		_ = conn.Close()
		return
	}
	go l.unwrap(conn, peer)
}

// await notes a connection whose header is to be read, so that closing the
// listener ends that. It reports false if it is closed.
func (l *Listener) await(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
		l.pending[c] = struct{}{}
		return true
	}
}

// unwrap reads the header that a balancer sends first, and goes on with the
// address that it names.
func (l *Listener) unwrap(c *Conn, peer netip.Addr) {
	source, err := readHeader(c.TCPConn, l.options.HeaderTimeout)
	l.mu.Lock()
	delete(l.pending, c)
	l.mu.Unlock()
	switch {
	case err == nil && source != nil:
		c.remote = source
		l.enter(c, addressOf(source))
	case err == nil, errors.Is(err, errNoHeader) && !l.options.HeaderRequired:
		l.enter(c, peer) // the balancer speaks for itself
	default:
		reason := BadHeader
		if errors.Is(err, errNoHeader) {
			reason = NoHeader
		}
		_ = c.Close()
		l.refused(reason)
	}
}

// enter counts a connection for the address of its client, and hands it on.
func (l *Listener) enter(c *Conn, client netip.Addr) {
	if !client.IsLoopback() && !l.options.Balancers.Trusts(client) && !l.options.Forwarders(client) {
		if !l.addresses.Take(client, l.options.Bounds().PerAddress) {
			l.open.Add(-1)
			l.refuse(c.TCPConn, TooManyOne)
			return
		}
		c.counted = client
	}
	made := net.Conn(c)
	if l.options.Wrap != nil {
		made = l.options.Wrap(c)
	}
	if l.options.TLS != nil {
		made = tls.Server(made, l.options.TLS)
	}
	l.hand(made)
}

func (l *Listener) hand(c net.Conn) {
	select {
	case l.ready <- c:
	case <-l.closed:
		_ = c.Close()
	case <-l.ended:
		_ = c.Close()
	}
}

func (l *Listener) refused(r Reason) {
	if l.options.Refused != nil {
		l.options.Refused(r)
	}
}

// Conn is a client's connection. Reads and writes are the socket's own.
type Conn struct {
	*net.TCPConn
	of      *Listener
	remote  net.Addr // of the client behind a balancer; nil: the socket's
	counted netip.Addr
	closed  atomic.Bool
}

// RemoteAddr is the client's address, also behind a balancer that says it.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.TCPConn.RemoteAddr()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.TCPConn.Close()
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
		c.of.addresses.Release(c.counted)
	}
	return err
}

func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
