package node

import (
	"encoding/json"

	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/knobs"
)

// wanParams are the settings of the links between regions.
type wanParams struct {
	Compression string `json:"compression"`
	Congestion  string `json:"congestion"`
	Batching    bool   `json:"batching"`
}

// wanDefaults follow from docs/figures/compression.md and docs/figures/peers.md.
var wanDefaults = wanParams{Compression: wan.Zstd.String(), Batching: true}

// wanSettings are the cluster settings of the links between regions.
func (n *Node) wanSettings() knobs.Group {
	read := func(data []byte) (p wanParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil {
			_, err = wan.ParseCompression(p.Compression)
		}
		return p, err
	}
	return knobs.Of("wan.", wanDefaults, map[string]string{
		"compression": "of what crosses between regions: off, lz4, zstd",
		"batching": "what gathers for another region while a message is being sent leaves together, " +
			"and is compressed together; false: each message by itself",
		"congestion": "the kernel's TCP congestion control between regions, such as bbr; empty: the kernel's default",
	}, read, func(p wanParams) error {
		c, err := wan.ParseCompression(p.Compression)
		if err != nil {
			return err
		}
		n.trans.SetCompression(c)
		n.trans.SetBatching(p.Batching)
		n.host.SetBatching(p.Batching)
		if err := n.trans.SetCongestion(p.Congestion); err != nil {
			n.log.Warn("wan.congestion is not followed on this node", "err", err)
		}
		return nil
	})
}
