package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/policy/crossing"
	"github.com/godwitdb/godwit/policy/home"
)

// tierParams are crossing.Params as cluster settings.
type tierParams struct {
	Tier   crossing.Setting `json:"tier"`
	Window home.Duration    `json:"tier_window"`
	Least  int              `json:"tier_least"`
	Above  float64          `json:"tier_above"`
	Below  float64          `json:"tier_below"`
}

// tierSettings are the operator's settings of how transactions cross regions.
func (n *Node) tierSettings() knobs.Group {
	def := crossing.Defaults()
	read := func(data []byte) (crossing.Params, error) {
		var p tierParams
		if err := json.Unmarshal(data, &p); err != nil {
			return crossing.Params{}, err
		}
		t := crossing.Params{Setting: p.Tier, Window: time.Duration(p.Window), Least: p.Least, Above: p.Above, Below: p.Below}
		if c := n.concurrency(); c.Ordered() && t != def {
			return crossing.Params{}, base.Errorf(base.CodeInvalid,
				"this cluster orders transactions by timestamps (concurrency control %s), wherever they cross: "+
					"it has no tiers to choose from", c)
		}
		return t, t.Validate()
	}
	return knobs.Of("transaction.", tierParams{def.Setting, home.Duration(def.Window), def.Least, def.Above,
		def.Below}, map[string]string{
		"tier": "how transactions of sessions that have not chosen (transaction_consistency) cross regions: " +
			"strict (locks at the owners), relay (nobody inside a region waits for them), " +
			"auto (relay while most stay inside their region; every gateway decides for itself)",
		"tier_window": "with auto: the least time between two decisions",
		"tier_least":  "with auto: the least number of transactions that a decision rests on",
		"tier_above":  "with auto: share of transactions across regions from which on they take the same locks as all others",
		"tier_below":  "with auto: share of transactions across regions down to which they cross in a tier of their own again",
	}, read, func(p crossing.Params) error {
		n.tier.Set(p, time.Now())
		return nil
	})
}

// relays reports whether transactions of sessions that have not chosen cross in a tier of their
// own, and whether somebody has asked for that. Programs rely on slots that differ, so auto acts as
// strict until all builds see to that (docs/protocol.md, REL-13), and where there are no tiers.
func (n *Node) relays() (relays, asked bool) {
	relays, auto := n.tier.Relay()
	if !auto {
		return relays, true
	}
	t := n.cluster.Topology()
	return relays && t.Allows(base.VersionSlots) && !t.Concurrency.Ordered(), false
}

func (n *Node) concurrency() base.Concurrency { return n.cluster.Topology().Concurrency }

// consistencyRows are the rows of godwit.consistency, the decision in force last.
func (n *Node) consistencyRows(context.Context) (rows [][]any) {
	made := n.tier.Decisions()
	if c := n.concurrency(); c.Ordered() {
		return [][]any{{made[0].At.UTC(), c.String(), c.String(), "the cluster was made with this concurrency control",
			0, 0, true}}
	}
	for i, d := range made {
		mode := "strict"
		if d.Relay {
			mode = "relay"
		}
		if relays, _ := n.relays(); d.Relay && !relays && i == len(made)-1 {
			mode, d.Why = "strict", fmt.Sprintf("%s, once the cluster acts by version %d", d.Why, base.VersionSlots)
		}
		rows = append(rows, []any{d.At.UTC(), string(d.Setting), mode, d.Why, d.Transactions, d.Crossed, i == len(made)-1})
	}
	return rows
}
