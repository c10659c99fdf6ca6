package sim

// dialect is the wire form of one endpoint's answers. Streaming methods write
// events; whole returns the body of an answer that is not streamed.
type dialect interface {
	open(x *exchange, i int) error // before the first piece of choice i
	piece(x *exchange, i int, p piece, u usage) error
	close(x *exchange, i int, a *answer) error
	end(x *exchange, u usage) error // after the last choice
	failure(x *exchange, e *apiError) error
	whole(b []byte, answers []answer, u usage) []byte
}

type usage struct {
	prompt, completion, cached int
}

// stream sends the answers piece by piece as their tokens become ready.
func (x *exchange) stream(d dialect, answers []answer, u usage, t *ticket) error {
	sent := make([]int, len(answers))
	for left := len(answers); left > 0; {
		moved := false
		for i := range answers {
			if sent[i] == closed || sent[i] >= t.ready(i) {
				continue
			}
			moved = true
			if err := x.advance(d, i, &answers[i], sent, &u); err != nil {
				return err
			}
			if sent[i] == closed {
				left--
			}
		}
		if !moved {
			if err := t.wait(); err != nil {
				return x.interrupted(d, answers, sent, u, err)
			}
		}
	}
	u.cached = t.cached()
	return x.finish(d, u)
}

const closed = -1 // in sent: this choice has had its last event

// advance sends the next piece of choice i, and closes the choice after its
// last one.
func (x *exchange) advance(d dialect, i int, a *answer, sent []int, u *usage) error {
	n := sent[i]
	if n == 0 {
		if err := d.open(x, i); err != nil {
			return err
		}
	}
	if x.fault.Kind == Abort && n >= x.fault.After {
		a.pieces, a.finish = a.pieces[:n], "abort"
	}
	if n < len(a.pieces) {
		u.completion++
		if err := d.piece(x, i, a.pieces[n], *u); err != nil {
			return err
		}
		n++
	}
	if sent[i] = n; n < len(a.pieces) {
		return nil
	}
	sent[i] = closed
	return d.close(x, i, a)
}

// finish sends the last events. What happens to the connection after them is
// no abort: clients may close it as soon as they have seen [DONE].
func (x *exchange) finish(d dialect, u usage) error {
	if err := d.end(x, u); err != nil {
		return err
	}
	x.complete = true
	return x.end()
}

// interrupted ends a stream whose replica is shutting down as vLLM does on
// SIGTERM: a clean 200 with the finish reason "abort".
func (x *exchange) interrupted(d dialect, answers []answer, sent []int, u usage, err error) error {
	if err != errClosing {
		return err
	}
	for i := range answers {
		if sent[i] == 0 {
			if err := d.open(x, i); err != nil {
				return err
			}
		}
		if sent[i] != closed {
			answers[i].finish = "abort"
			if err := d.close(x, i, &answers[i]); err != nil {
				return err
			}
		}
	}
	if err := x.finish(d, u); err != nil {
		return err
	}
	x.keep = false
	return errClosing
}
