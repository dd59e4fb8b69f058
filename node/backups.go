package node

import (
	"encoding/json"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/knobs"
)

// backupParams are the cluster settings of backups.
type backupParams struct {
	Rate float64 `json:"mb_per_second"`
}

const mostBackupRate = 1e6

func (n *Node) backupSettings() knobs.Group {
	read := func(data []byte) (p backupParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil && (p.Rate < 0 || p.Rate > mostBackupRate || p.Rate > 0 && p.Rate < 0.001) {
			err = base.Errorf(base.CodeInvalid, "backup.mb_per_second is %v; it must be from 0.001 to %v, or 0 for no bound", p.Rate,
				mostBackupRate)
		}
		return p, err
	}
	return knobs.Of("backup.", backupParams{}, map[string]string{
		"mb_per_second": "megabytes that a node writes at most in a second for backups, to their place, and for restores, " +
			"as rows; 0: no bound",
	}, read, func(p backupParams) error {
		n.pace.Set(p.Rate * 1e6)
		return nil
	})
}
