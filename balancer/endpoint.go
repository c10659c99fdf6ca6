package balancer

// Endpoint is what a source (the configuration, DNS, Consul) says of one
// replica.
type Endpoint struct {
	URL    string   `json:"url"`              // base URL: http://host:port, or https
	Host   string   `json:"host,omitempty"`   // Host header and TLS name, where the URL holds a resolved address
	Weight int      `json:"weight,omitempty"` // its share beside the others'; below 1 counts as 1
	Held   Held     `json:"held,omitempty"`   // why it is held out, if it is
	Why    string   `json:"why,omitempty"`    // the source's own words for Held
	Models []string `json:"models,omitempty"` // what it serves, until the replica itself has said so
}

// Held is a source's reason to hold a replica out.
type Held string

// The reasons of a source.
const (
	HeldNot         Held = ""
	HeldCritical    Held = "critical"    // the source's checks fail; used again in a panic
	HeldMaintenance Held = "maintenance" // taken out by hand; never used
	HeldSuspect     Held = "suspect"     // vanished with many others at once; used when nothing else can be
)

// Static makes endpoints of a fixed list of base URLs.
func Static(urls []string) []Endpoint {
	endpoints := make([]Endpoint, len(urls))
	for i, u := range urls {
		endpoints[i].URL = u
	}
	return endpoints
}
