package wanemu

import (
	"errors"
	"fmt"
	"net/netip"
)

// Site is a machine: a network namespace with one address.
type Site struct {
	Name   string
	Region string // key into the round trips
	IP     string // IPv4; all sites share a /16
}

// Config of an emulated network. Delays are in milliseconds.
type Config struct {
	Sites   []Site
	RTT     map[string]map[string]float64 // region to region; one direction of a pair suffices
	LocalMs float64                       // round trip between sites of one region
	// sigma of the half-normal delay added one way; packets keep their order
	Jitter float64
	Loss   float64 // 0 to 1, for each packet between regions
	Mbit   float64 // of a directed pair of regions; 0 is unlimited
	// of the bottleneck; what does not fit is dropped; default 16 MiB
	QueueKB int
	MTU     int    // default 1500
	Seed    uint64 // of loss and jitter
	// Congestion is TCP's congestion control inside the sites ("cubic", "bbr"); empty is the
	// machine's. It decides how loss and pauses are taken, so a comparison should name it.
	Congestion string
}

// RouterArg is the first argument that makes a program call [RouterMain].
const RouterArg = "wanemu-router"

func (c *Config) rtt(a, b string) float64 {
	if a == b {
		return c.LocalMs
	}
	if v, ok := c.RTT[a][b]; ok {
		return v
	}
	return c.RTT[b][a]
}

func (c *Config) fill() error {
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.QueueKB == 0 {
		c.QueueKB = 16384
	}
	var errs []error
	seen := map[string]bool{}
	for _, s := range c.Sites {
		if a, err := netip.ParseAddr(s.IP); err != nil || !a.Is4() {
			errs = append(errs, fmt.Errorf("site %s: %q is no IPv4 address", s.Name, s.IP))
		}
		if seen[s.Name] || seen[s.IP] {
			errs = append(errs, fmt.Errorf("two sites are called %s or have address %s", s.Name, s.IP))
		}
		seen[s.Name], seen[s.IP] = true, true
	}
	if len(c.Sites) == 0 {
		errs = append(errs, errors.New("the network has no site"))
	}
	return errors.Join(errs...)
}
