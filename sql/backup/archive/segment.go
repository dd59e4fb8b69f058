package archive

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// SegmentSuffix is how the name of a segment of a log ends.
const SegmentSuffix = ".segment"

// Segment says what a part of the log of changes holds: all versions that were committed above From
// and at or below To. Its pieces lie in the same folder, and are written before it.
type Segment struct {
	ID      string                   `json:"id"`
	Target  string                   `json:"target"`
	Whole   bool                     `json:"whole,omitempty"`
	Cluster string                   `json:"cluster"`
	From    base.Timestamp           `json:"from"`
	To      base.Timestamp           `json:"to"`
	Regions map[base.RegionID]string `json:"regions"`
	// Defs are definitions that States name by their positions, each once.
	Defs []json.RawMessage `json:"defs,omitempty"`
	// States are what was defined from moments of the segment on, in their order.
	States []State `json:"states,omitempty"`
	// Counters are those of AUTO_INCREMENT that have changed, as of To, by the keys of counters.
	Counters map[uint64]uint64 `json:"counters,omitempty"`
	Pieces   []File            `json:"pieces,omitempty"`
	// Skipped are tables that are not in the log.
	Skipped []string `json:"skipped,omitempty"`
	// Region is the one whose versions these are, and Places has those that have logs of their own:
	// see [Manifest].
	Region string   `json:"region,omitempty"`
	Places []string `json:"places,omitempty"`
	// Fresh are the tables whose definitions the segment is the first to have, with the moments of
	// these: all versions of their rows are here, also older ones. Only segments with Region or
	// Places have it.
	Fresh map[base.TableID]base.Timestamp `json:"fresh,omitempty"`
}

// State is what was defined at a moment.
type State struct {
	At        base.Timestamp `json:"at"`
	Databases []int          `json:"databases,omitempty"`
	Tables    []int          `json:"tables,omitempty"`
	Objects   []StateObject  `json:"objects,omitempty"`
	Users     []byte         `json:"users,omitempty"`
}

// StateObject is a view, trigger, procedure, function or event.
type StateObject struct {
	Kind base.IndexID `json:"kind"`
	Def  int          `json:"def"`
}

// LogFolder is the folder of segments that end at a time.
func LogFolder(ts base.Timestamp) string { return logFolder + ts.Time().Format(logLayout) }

const (
	logFolder = "log-"
	logLayout = "20060102-15"
)

// IsLogFolder reports whether a folder holds segments.
func IsLogFolder(name string) bool {
	return strings.HasPrefix(name, logFolder) && len(name) == len(logFolder)+len(logLayout)
}

// Encode makes the file of a segment in a folder.
func (s *Segment) Encode(folder string, k *Key) ([]byte, error) {
	version := byte(plain)
	if s.Region != "" || len(s.Places) > 0 {
		version = regional
	}
	return encodeDocument(segmentMagic, version, folder+"/"+s.ID+SegmentSuffix, k, s)
}

// DecodeSegment reads the segment with an id, and returns the key of its pieces.
func DecodeSegment(folder, id string, b []byte, keys *Keyring) (*Segment, *Key, error) {
	file := folder + "/" + id + SegmentSuffix
	s := new(Segment)
	key, err := decodeDocument(segmentMagic, "segment of a log of changes", file, b, keys, s)
	if err != nil {
		return nil, nil, err
	}
	if s.ID != id || !IsID(id) || s.From >= s.To || LogFolder(s.To) != folder {
		return nil, nil, bad(file, "it is another segment, of %q", s.ID)
	}
	c := checking{file: file, seen: map[string]bool{}}
	for _, f := range s.Pieces {
		c.look(f)
	}
	if c.wrong != nil {
		return nil, nil, c.wrong
	}
	at := s.From
	for _, x := range s.States {
		wrong := func(i int) bool { return i < 0 || i >= len(s.Defs) }
		if x.At <= at || x.At > s.To || slices.ContainsFunc(x.Databases, wrong) || slices.ContainsFunc(x.Tables, wrong) ||
			slices.ContainsFunc(x.Objects, func(o StateObject) bool { return wrong(o.Def) }) {
			return nil, nil, bad(file, "what it says of definitions cannot be")
		}
		at = x.At
	}
	return s, key, nil
}
