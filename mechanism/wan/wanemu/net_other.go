//go:build !linux

package wanemu

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

var errLinux = errors.New("cannot emulate a network: it needs Linux network namespaces and TUN devices")

// Net is a running network; there is none on this system.
type Net struct{}

// Inside is a site of a running network.
type Inside struct{ Site }

// Check says what keeps this machine from emulating networks.
func Check() error { return errLinux }

// Start makes the sites and connects them.
func Start(Config) (*Net, error) { return nil, errLinux }

// RouterMain is the router process.
func RouterMain(string) error { return errLinux }

// Site returns the site of that name.
func (*Net) Site(string) *Inside { return nil }

// Control changes the network while it runs.
func (*Net) Control(string) error { return errLinux }

// Stats counts packets.
func (*Net) Stats() (string, error) { return "", errLinux }

// Close ends the network.
func (*Net) Close() error { return errLinux }

// Do runs f inside the site.
func (*Inside) Do(func()) {}

// Start starts a process inside the site.
func (*Inside) Start(*exec.Cmd) error { return errLinux }

// Dial connects from inside the site.
func (*Inside) Dial(context.Context, string, string) (net.Conn, error) { return nil, errLinux }
