package sim

import (
	"errors"
	"net"
	"time"
)

// This file is where a fault meets an exchange.

var (
	errInject = errors.New("error event asked for by a fault")
	errEnd    = errors.New("end asked for by a fault")
)

// beforeHead acts on the faults that precede the header. handled means that
// the request has been answered, or never will be.
func (x *exchange) beforeHead() (handled bool, err error) {
	f := &x.fault
	switch {
	case f.Kind == Hang && f.Where == "headers":
		return x.hang()
	case f.Kind == Status, f.Kind == QueueFull && !f.AsEvent:
		return true, x.failShaped(f.apiError(x.cfg.MaxQueued), f.Shape)
	case f.Kind == Dead:
		return true, x.failShaped(statusError(500, "EngineCore encountered an issue. See stack trace (above) for the root cause."), f.Shape)
	}
	return false, nil
}

// beforeBody acts on the faults that a whole answer can show.
func (x *exchange) beforeBody() error {
	switch f := &x.fault; {
	case f.Kind == Hang && f.Where != "headers":
		_, err := x.hang()
		return err
	case f.Kind == Slow:
		return x.pause(time.Duration(float64(f.Pause) * f.Factor))
	}
	return nil
}

// beforeFirst lets an error that takes the place of the first event come at
// once: a refusal does not wait for the engine.
func (x *exchange) beforeFirst() error {
	if f := &x.fault; f.After == 0 && (f.Kind == Error || f.Kind == QueueFull) {
		return errInject
	}
	return nil
}

// beforeEvent acts on the faults that show between two events.
func (x *exchange) beforeEvent() error {
	f := &x.fault
	if f.Kind == Slow {
		return x.pause(time.Duration(float64(f.Pause) * f.Factor))
	}
	if x.events != f.After && (x.events != 0 || f.Where != "body") {
		return nil
	}
	switch f.Kind {
	case Hang:
		_, err := x.hang()
		return err
	case Error, QueueFull:
		return errInject
	case End:
		return errEnd
	}
	return nil
}

// hang stops here: for good, or for the fault's time, after which there is no
// fault any more. It returns an error when the client or the replica goes.
func (x *exchange) hang() (handled bool, err error) {
	wait := x.fault.For
	if wait == 0 {
		wait = 1 << 62
	}
	if err := x.pause(wait); err != nil {
		return true, err
	}
	x.fault = Fault{}
	return false, nil
}

func (x *exchange) pause(d time.Duration) error {
	if x.conn == nil {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.req.gone:
		return errGone
	case <-x.r.closing:
		return errClosing
	}
}

// cutWithin returns how many bytes of p still leave before the cut, and
// whether the cut comes within or right after p.
func (x *exchange) cutWithin(p []byte, off, payload int) (n int, now bool) {
	if x.fault.Of == "response" {
		left := x.fault.At - x.wire
		return int(max(0, min(left, int64(len(p))))), left <= int64(len(p))
	}
	left := x.fault.At - x.body
	if payload == 0 { // the head goes out whole, the terminating chunk does not
		return 0, x.headSent && x.wire > 0 && left <= 0
	}
	return off + int(max(0, min(left, int64(payload)))), left <= int64(payload)
}

// cut sends the last bytes and ends the connection.
func (x *exchange) cut(last []byte) error {
	if len(last) > 0 {
		n, _ := x.conn.Write(last)
		x.wire += int64(n)
	}
	x.keep, x.failed = false, errCut
	if x.fault.How == "rst" {
		reset(x.conn)
	}
	_ = x.conn.Close()
	return x.failed
}

// reset makes the coming Close send an RST. Bytes that the peer's kernel has
// not taken yet would be dropped with it, so it waits for them.
func reset(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	for deadline := time.Now().Add(time.Second); unsent(tcp) > 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Microsecond)
	}
	_ = tcp.SetLinger(0)
}
