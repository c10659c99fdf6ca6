package balancer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// resolveEvery is how often a DNS name is looked up again.
const resolveEvery = 5 * time.Second

// DNS is a source of replicas: every address of a name is one.
type DNS struct {
	URL     string                 // http://name:port, or https
	Keeper  *Keeper                // nil keeps nothing on disk
	Publish func([]Endpoint) error // is given every new list
	OnError func(error)            // is told why there is none; the last good one stays. May be nil

	// Lookup resolves the name; nil uses the system's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Run looks the name up again and again until ctx ends.
func (d *DNS) Run(ctx context.Context) {
	if d.Keeper == nil {
		d.Keeper = NewKeeper("")
	}
	if kept, err := d.Keeper.Restore(); err != nil {
		d.tell(err)
	} else if len(kept) > 0 {
		d.tell(d.Publish(kept))
	}
	for ctx.Err() == nil {
		if err := d.resolve(ctx); ctx.Err() == nil {
			d.tell(err)
		}
		wait := time.NewTimer(time.Duration(float64(resolveEvery) * (0.8 + 0.4*rand.Float64())))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

func (d *DNS) resolve(ctx context.Context) error {
	u, err := url.Parse(d.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveEvery)
	defer cancel()
	addrs, err := d.lookup(ctx, u.Hostname())
	if err != nil {
		return fmt.Errorf("resolve %s: %w", u.Hostname(), err)
	}
	list, changed, saved := d.Keeper.Take(dnsEndpoints(u, addrs), time.Now())
	if changed {
		if err := d.Publish(list); err != nil {
			return err
		}
	}
	return saved
}

func (d *DNS) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if d.Lookup != nil {
		return d.Lookup(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func (d *DNS) tell(err error) {
	if err != nil && d.OnError != nil {
		d.OnError(err)
	}
}

// dnsEndpoints makes one endpoint of each address, in a lasting order.
func dnsEndpoints(u *url.URL, addrs []netip.Addr) []Endpoint {
	var list []Endpoint
	addrs = slices.Clone(addrs)
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, a := range slices.Compact(addrs) {
		at := url.URL{Scheme: u.Scheme, Host: bracketed(a.String())}
		if u.Port() != "" {
			at.Host += ":" + u.Port()
		}
		list = append(list, Endpoint{URL: at.String(), Host: u.Hostname()})
	}
	return list
}
