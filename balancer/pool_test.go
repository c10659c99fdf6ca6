package balancer

import (
	"strings"
	"testing"
)

func TestAReplicaThatStaysKeepsItsCounters(t *testing.T) {
	p := newPool(t, 2, Options{})
	before := p.Replicas()
	leases := []*Lease{mustAcquire(t, p, Need{}), mustAcquire(t, p, Need{})}
	if err := p.Update(Static([]string{before[1].URL, "http://new:8000", "http://new:8000/"})); err != nil {
		t.Fatal(err)
	}
	after := p.Replicas()
	if len(after) != 2 || after[0] != before[1] || after[1].ID != "new:8000" {
		t.Fatalf("got %v", after)
	}
	if after[0].InFlight() != 1 {
		t.Errorf("in flight of the one that stayed: %d, want 1", after[0].InFlight())
	}
	for range 5 {
		if l := mustAcquire(t, p, Need{}); l.Replica() == before[0] {
			t.Fatal("the removed replica got a new lease")
		}
	}
	for _, l := range leases {
		l.Done(Success)
	}
	if before[0].InFlight() != 0 {
		t.Error("the removed replica's lease did not end")
	}
}

func TestABadEndpointChangesNothing(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"10.0.0.5:8000", "replica"},
		{"ftp://10.0.0.5:8000", "want http://host:port"},
		{"http://", "want http://host:port"},
		{"http://h:8000/v1", "only scheme, host and port"},
		{"http://user:secret@h:8000", "only scheme, host and port"},
		{"http://h:8000?x=1", "only scheme, host and port"},
	} {
		p := newPool(t, 1, Options{})
		err := p.Update(Static([]string{"http://good:1", c.url}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in the error: %v", c.url, err)
		}
		if rs := p.Replicas(); len(rs) != 1 || rs[0].ID == "good:1" {
			t.Errorf("%s: the pool changed to %v", c.url, rs)
		}
	}
}

func TestTheAddressOfAReplica(t *testing.T) {
	for _, c := range []struct {
		url, id, host string
		tls           bool
	}{
		{"http://10.0.0.5:8000", "10.0.0.5:8000", "10.0.0.5:8000", false},
		{"http://gpu1", "gpu1:80", "gpu1", false},
		{"https://gpu1/", "gpu1:443", "gpu1", true},
		{"https://gpu1:443", "gpu1:443", "gpu1", true},
		{"https://gpu1:8443", "gpu1:8443", "gpu1:8443", true},
		{"http://[fd00::1]:8000", "[fd00::1]:8000", "[fd00::1]:8000", false},
		{"http://[fd00::1]", "[fd00::1]:80", "[fd00::1]", false},
	} {
		r, err := newReplica(Endpoint{URL: c.url}, func() int64 { return 1 })
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if r.ID != c.id || r.Host != c.host || r.TLS != c.tls {
			t.Errorf("%s: got %q, host %q, tls %v", c.url, r.ID, r.Host, r.TLS)
		}
	}
}
