package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a Fault does.
type Kind string

// The kinds of fault. Refuse and Dead concern the whole replica and work at
// run time only; the others can also be asked for by a request.
const (
	NoFault   Kind = ""
	Refuse    Kind = "refuse"     // the listener is closed; open connections go on
	Dead      Kind = "dead"       // /health answers 503 without a body, inference 500
	Hang      Kind = "hang"       // stops at Where, for good or For a while
	Cut       Kind = "cut"        // ends the connection after At bytes of Of, by How
	Status    Kind = "status"     // answers Code in Shape
	Error     Kind = "error"      // a 200 whose event number After is an error, then [DONE]
	QueueFull Kind = "queue_full" // the refusal of a full queue; as=event puts it into a 200
	Abort     Kind = "abort"      // finish_reason "abort" after After tokens
	End       Kind = "end"        // a clean end of the response after After events, without [DONE]
	Slow      Kind = "slow"       // every event, or a whole answer, is held back by Pause times Factor
)

// Fault is one way to fail. Its text form is the kind, then members:
//
//	cut; at=123; how=rst             body byte 123, RST (default fin)
//	cut; at=40; of=response          byte 40 of the whole HTTP response, head included
//	hang; where=headers              before the header (default), or body: before its first byte
//	hang; where=event; after=3       after 3 events; for=2s goes on after 2 s
//	status; code=503; shape=bare     shapes: nested flat string bare empty plain
//	status; code=429; retry_after=7; message=slow down
//	error; after=0; code=500         error event first (0) or after N events, then [DONE]
//	queue_full                       503; as=event: in a 200, as the first event
//	abort; after=2                   finish_reason "abort" after 2 tokens
//	end; after=4                     terminating chunk after 4 events, no [DONE]
//	slow; factor=5; pause=10ms       each event 50 ms late
//	refuse; for=2s                   listener closed (run time only)
//	dead; for=2s                     engine dead (run time only)
//
// At run time times=N limits a fault to the next N requests, path=P to one
// path (without it the inference endpoints are meant), for= (of refuse and
// dead) in time; slow makes the engines themselves slower by the factor. A
// fault in the body of a request counts only where no other is in force.
type Fault struct {
	Kind       Kind
	At         int64         // cut: bytes that still arrive
	Of         string        // cut: "body" (payload, chunk framing not counted) or "response"
	How        string        // cut: "fin" or "rst"
	Where      string        // hang: "headers", "body" or "event"
	After      int           // events or tokens that still arrive
	For        time.Duration // 0 is for good
	Code       int
	Shape      Shape
	Message    string
	RetryAfter string
	AsEvent    bool
	Factor     float64
	Pause      time.Duration
	Times      int    // requests hit; 0 is all
	Path       string // "" is every path
}

// ParseFault reads the text form.
func ParseFault(text string) (Fault, error) {
	parts := strings.Split(text, ";")
	f := Fault{Kind: Kind(strings.TrimSpace(parts[0])), Of: "body", How: "fin", Where: "headers", Code: 500, Factor: 1, Pause: 10 * time.Millisecond}
	switch f.Kind {
	case NoFault:
		return Fault{}, nil
	case QueueFull:
		f.Code = 503
	case Refuse, Dead, Hang, Cut, Status, Error, Abort, End, Slow:
	default:
		return f, fmt.Errorf("unknown fault %q", f.Kind)
	}
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return f, fmt.Errorf("fault member %q: want name=value", part)
		}
		if err := f.set(name, value); err != nil {
			return f, fmt.Errorf("fault member %q: %w", part, err)
		}
	}
	if f.Factor <= 0 || f.At < 0 || f.After < 0 || f.Times < 0 || f.For < 0 || f.Pause < 0 {
		return f, errors.New("fault members must not be negative, nor factor 0")
	}
	return f, nil
}

func (f *Fault) set(name, value string) (err error) {
	switch name {
	case "at":
		f.At, err = strconv.ParseInt(value, 10, 64)
	case "of":
		f.Of, err = oneOf(value, "body", "response")
	case "how":
		f.How, err = oneOf(value, "fin", "rst")
	case "where":
		f.Where, err = oneOf(value, "headers", "body", "event")
	case "after", "n":
		f.After, err = strconv.Atoi(value)
	case "for":
		f.For, err = time.ParseDuration(value)
	case "code":
		f.Code, err = parseStatus(value)
	case "shape":
		f.Shape, err = ParseShape(value)
	default:
		return f.setMore(name, value)
	}
	return err
}

func (f *Fault) setMore(name, value string) (err error) {
	switch name {
	case "message":
		f.Message = value
	case "retry_after":
		f.RetryAfter = value
	case "as":
		value, err = oneOf(value, "status", "event")
		f.AsEvent = value == "event"
	case "factor":
		f.Factor, err = strconv.ParseFloat(value, 64)
	case "pause":
		f.Pause, err = time.ParseDuration(value)
	case "times":
		f.Times, err = strconv.Atoi(value)
	case "path":
		f.Path = value
	default:
		err = errors.New("unknown name")
	}
	return err
}

func parseStatus(value string) (int, error) {
	code, err := strconv.Atoi(value)
	if err == nil && (code < 200 || code > 599) {
		err = errors.New("want 200 to 599")
	}
	return code, err
}

func oneOf(value string, allowed ...string) (string, error) {
	for _, a := range allowed {
		if a == value {
			return value, nil
		}
	}
	return "", fmt.Errorf("want one of %v", allowed)
}

// apiError is the error that a Status, Error or QueueFull fault answers with.
func (f *Fault) apiError(limit int) *apiError {
	if f.Kind == QueueFull && f.Message == "" {
		e := queueFull(limit)
		e.status = f.Code
		return e
	}
	return statusError(f.Code, f.Message)
}
