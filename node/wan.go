package node

import (
	"encoding/json"

	"github.com/godwitdb/godwit/wan"
)

// wanParams are the settings of the links between regions.
type wanParams struct {
	Compression string `json:"compression"`
	Congestion  string `json:"congestion"`
}

// wanDefaults are what docs/figures/compression.md and docs/figures/peers.md speak for.
var wanDefaults = wanParams{Compression: wan.Zstd.String()}

// wanSettings are the cluster settings of the links between regions.
func (n *Node) wanSettings() settingGroup {
	read := func(data []byte) (p wanParams, c wan.Compression, err error) {
		if err = json.Unmarshal(data, &p); err == nil {
			c, err = wan.ParseCompression(p.Compression)
		}
		return p, c, err
	}
	return settingGroup{
		prefix: "wan.", defaults: wanDefaults,
		help: map[string]string{
			"compression": "of what crosses between regions: off, lz4, zstd",
			"congestion":  "the kernel's TCP congestion control between regions, such as bbr; empty: the kernel's default",
		},
		check: func(data []byte) error {
			_, _, err := read(data)
			return err
		},
		apply: func(data []byte) error {
			p, c, err := read(data)
			if err != nil {
				return err
			}
			n.trans.SetCompression(c)
			if err := n.trans.SetCongestion(p.Congestion); err != nil {
				n.log.Warn("wan.congestion is not followed on this node", "err", err)
			}
			return nil
		},
	}
}
