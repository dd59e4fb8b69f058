package node

import (
	"encoding/json"
	"net"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/console"
	"github.com/godwitdb/godwit/node/knobs"
)

// openConsole makes the console of this node, which is a client of its MySQL port. addresses are
// those by which the node may be asked without TLS.
func (n *Node) openConsole(port *indoor, addresses ...string) *console.Console {
	opt := console.Options{Dial: port.Dial, Logger: n.log}
	for _, a := range addresses {
		if host, _, err := net.SplitHostPort(a); err == nil {
			opt.Hosts = append(opt.Hosts, host)
		}
	}
	return console.New(opt)
}

// consoleParams are the settings of the console.
type consoleParams struct {
	Places string `json:"places"`
}

func (n *Node) consoleSettings() knobs.Group {
	read := func(data []byte) (p consoleParams, err error) {
		if err = json.Unmarshal(data, &p); err != nil {
			return p, err
		}
		if _, err := console.ParsePlaces(p.Places); err != nil {
			return p, base.Errorf(base.CodeInvalid, "console.places is REGION LATITUDE LONGITUDE; ...: %v", err)
		}
		return p, nil
	}
	return knobs.Of("console.", consoleParams{}, map[string]string{
		"places": "where regions are on the console's map, if their names do not say it: REGION LATITUDE LONGITUDE; ...",
	}, read, func(consoleParams) error { return nil }) // the console reads it by SQL
}
