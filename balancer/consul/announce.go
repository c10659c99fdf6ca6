package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// announceEvery is how often the registration is renewed: an agent that was
	// replaced has forgotten it.
	announceEvery = 30 * time.Second
	announceTime  = 3 * time.Second  // limit of one registration
	forgetAfter   = 10 * time.Minute // of failing checks: we are gone for good
)

// Registration is the gateway as others shall find it.
type Registration struct {
	ID       string // unique on the agent; empty is Name
	Name     string
	Address  string // empty is the agent's
	Port     int
	Tags     []string
	Meta     map[string]string
	CheckURL string        // what the agent asks; empty is no check
	Interval time.Duration // between two checks; 0 is 5 s
}

// ErrHandedOver is the cause of the end of a context with which Announce leaves
// the registration as it is, because another process goes on with it.
var ErrHandedOver = errors.New("handed over")

// Announce registers the gateway and keeps it registered until ctx ends; then it
// deregisters it and returns. So end ctx, and wait, before draining. OnError is
// told each failure, and nil when it is over; it may be nil.
func (c *Client) Announce(ctx context.Context, r Registration, onError func(error)) {
	tell, troubled := func(err error) {
		if onError != nil {
			onError(err)
		}
	}, false
	pause := backoffFirst
	for ctx.Err() == nil {
		err := c.register(ctx, r)
		if ctx.Err() != nil {
			break
		}
		if err != nil || troubled {
			tell(err)
		}
		troubled = err != nil
		if troubled {
			sleep(ctx, pause)
			pause = min(2*pause, backoffMost)
			continue
		}
		pause = backoffFirst
		sleep(ctx, announceEvery)
	}
	if context.Cause(ctx) == ErrHandedOver {
		return
	}
	if err := c.deregister(r); err != nil {
		tell(err)
	}
}

func (c *Client) register(ctx context.Context, r Registration) error {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	s := &api.AgentServiceRegistration{
		ID: r.ID, Name: r.Name, Address: r.Address, Port: r.Port, Tags: r.Tags, Meta: r.Meta,
	}
	if r.CheckURL != "" {
		interval := r.Interval
		if interval <= 0 {
			interval = 5 * time.Second
		}
		s.Check = &api.AgentServiceCheck{
			Name: r.Name + " health", HTTP: r.CheckURL, Interval: interval.String(), Timeout: announceTime.String(),
			DeregisterCriticalServiceAfter: forgetAfter.String(),
		}
	}
	// The checks are not replaced: a renewal must not make them begin anew.
	err := c.api.Agent().ServiceRegisterOpts(s, api.ServiceRegisterOpts{}.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("consul: register %s: %w", r.Name, err)
	}
	return nil
}

// deregister has a time of its own: the gateway's has ended.
func (c *Client) deregister(r Registration) error {
	ctx, cancel := context.WithTimeout(context.Background(), announceTime)
	defer cancel()
	id := r.ID
	if id == "" {
		id = r.Name
	}
	options := (&api.QueryOptions{}).WithContext(ctx)
	if err := c.api.Agent().ServiceDeregisterOpts(id, options); err != nil {
		return fmt.Errorf("consul: deregister %s: %w", id, err)
	}
	return nil
}
