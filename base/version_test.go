package base

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestUnknownFieldsAreKept: what a newer build has put into a topology, in all of its parts, is
// there after this one has rewritten it (VERSION-4).
func TestUnknownFieldsAreKept(t *testing.T) {
	const newer = `{"version":3,"cluster_id":"c","shards":1,"quiet":{"a":[1,2]},"regions":[{"id":1,"name":"eu","shore":"north"},` +
		`{"id":2,"name":"us"}],"later":[{"region":2,"first":[[1]],"by":"hand"}],"nodes":[{"id":1,"region":1,"addr":"a","sql_addr":"s",` +
		`"rack":7}],"meta_voters":[1],"replicas":[[1]],"promotions":[{"id":1,"at":1,"region":1,"lost":1,"seat":2,"cut":1,` +
		`"groups":[{"group":17,"source":1,"index":1,"closed":1,"mark":true}],"why":"x"}]}`
	var top Topology
	if err := json.Unmarshal([]byte(newer), &top); err != nil {
		t.Fatal(err)
	}
	edit := top
	edit.Regions = append([]Region{}, top.Regions...)
	edit.Regions = append(edit.Regions, Region{ID: 3, Name: "asia"})
	edit.Version++
	b, err := json.Marshal(&edit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"quiet":{"a":[1,2]}`, `"shore":"north"`, `"by":"hand"`, `"rack":7`, `"mark":true`, `"why":"x"`,
		`"version":4`, `"name":"asia"`} {
		if strings.Count(string(b), want) != 1 {
			t.Errorf("%s is missing, or there twice: %s", want, b)
		}
	}
	var again Topology
	if err := json.Unmarshal(b, &again); err != nil || again.Unknown != top.Unknown || again.Regions[0].Unknown != top.Regions[0].Unknown {
		t.Errorf("read again: %v, %+v", err, again)
	}
	if again.Regions[1].Unknown != "" || again.Regions[2].Unknown != "" {
		t.Error("a field has got to other regions")
	}
}

func TestVersions(t *testing.T) {
	var top Topology
	if top.Acts() != VersionFirst || top.Allows(VersionRegions) {
		t.Errorf("a topology without a version acts by %d", top.Acts())
	}
	top.ClusterVersion = VersionNewest
	for v := VersionFirst + 1; v <= VersionNewest; v++ {
		if !top.Allows(v) || v.Brings() == "" {
			t.Errorf("version %d: nobody is told what it brings", v)
		}
	}
}
