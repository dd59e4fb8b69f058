package obs

import (
	"runtime/debug"
	"runtime/metrics"
)

// stamp is the version that a release is built with: make release sets it.
var stamp string

// Version is what the build was stamped with, or what it recorded of itself.
func Version() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if rev := settings["vcs.revision"]; rev != "" && v == "devel" {
		v += "-" + rev[:min(len(rev), 12)]
		if settings["vcs.modified"] == "true" {
			v += "-modified"
		}
	}
	return v
}

// MemoryBytes is the memory that the Go runtime holds, without what it has given back to the
// system.
func MemoryBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
