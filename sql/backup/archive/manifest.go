package archive

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// mostManifest bounds a manifest, without compression; mostTables what it may list.
const mostManifest = 256 << 20

// ManifestName is the file in the folder of a backup.
const ManifestName = "manifest"

// Manifest says what is in a backup.
type Manifest struct {
	ID string `json:"id"`
	// Parent is the backup that this one builds on; empty: it stands alone.
	Parent string `json:"parent,omitempty"`
	// Target is what was asked for: all backups that build on each other have one.
	Target    string         `json:"target"`
	Whole     bool           `json:"whole,omitempty"` // the target is the whole cluster
	Timestamp base.Timestamp `json:"timestamp"`       // the moment of the backup
	Cluster   string         `json:"cluster"`
	Started   time.Time      `json:"started"`
	Finished  time.Time      `json:"finished"`
	// Regions are the names of those that rows are at home in.
	Regions   map[base.RegionID]string `json:"regions"`
	Databases []json.RawMessage        `json:"databases"` // descriptors
	Tables    []Table                  `json:"tables"`
	Objects   []Object                 `json:"objects,omitempty"`
	// Users are accounts and their rights, of a whole cluster only.
	Users []byte `json:"users,omitempty"`
	// Skipped are the tables that are not in the backup.
	Skipped []string `json:"skipped,omitempty"`
	// Places are those of the regions whose rows are not here.
	Places []Place `json:"places,omitempty"`
	// Region is the one whose rows these are, and Main the place of the backup that has the others,
	// the definitions and the users; empty: it is this one.
	Region string `json:"region,omitempty"`
	Main   string `json:"main,omitempty"`
}

// Place is where the rows of a region are: in a folder with the id of the backup.
type Place struct {
	Region string `json:"region"`
	Place  string `json:"place"`
	SHA256 []byte `json:"sha256"` // of the file of the manifest there
	Rows   int64  `json:"rows"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Compared are the tables whose rows of the region were all read and compared.
	Compared []string `json:"compared,omitempty"`
}

// Table is one table of a backup.
type Table struct {
	Desc json.RawMessage `json:"desc"`
	// Counter is the next value of AUTO_INCREMENT; 0: there is none.
	Counter uint64 `json:"counter,omitempty"`
	// Rows are those of the table at the moment of the backup.
	Rows int64 `json:"rows"`
	// Sum adds up what [Record.Sum] makes of the rows, as they were read; nil: nobody has done so.
	Sum *Sum `json:"sum,omitempty"`
	// Alone says that the streams hold everything, and nothing of the parent counts.
	Alone   bool     `json:"alone,omitempty"`
	Streams []Stream `json:"streams"`
}

// Stream is a shard of a table: pieces in the order of keys.
type Stream struct {
	Shard base.ShardID `json:"shard"`
	Rows  []File       `json:"rows,omitempty"`
	Keys  []File       `json:"keys,omitempty"`
	// Changes says that Rows were found by the timestamps of commits, and that Keys are not listed
	// again: they are those of the parent, as Rows have changed them. Count is how many there are.
	Changes bool  `json:"changes,omitempty"`
	Count   int64 `json:"count,omitempty"`
	// Sum is that of the stream's rows, as [Table.Sum] is of all; nil: nobody has added them up.
	Sum *Sum `json:"sum,omitempty"`
}

// Number is how many rows the stream had at the moment of the backup.
func (s *Stream) Number() int64 {
	n := s.Count
	for _, k := range s.Keys {
		n += k.Records
	}
	return n
}

// check looks at what readers rely on; alone: nothing of a parent counts.
func (s *Stream) check(alone bool) bool {
	return s.Count >= 0 && (s.Changes && !alone && len(s.Keys) == 0 || !s.Changes && s.Count == 0)
}

// Stream is that of a shard; nil: there is none. A nil table has none.
func (t *Table) Stream(shard base.ShardID) *Stream {
	if t != nil {
		for i := range t.Streams {
			if t.Streams[i].Shard == shard {
				return &t.Streams[i]
			}
		}
	}
	return nil
}

// File is a piece.
type File struct {
	Name    string `json:"name"`    // in the folder of the backup
	Size    int64  `json:"size"`    // bytes
	Raw     int64  `json:"raw"`     // bytes of its records, neither compressed nor sealed
	Records int64  `json:"records"` // how many
	SHA256  []byte `json:"sha256"`  // of the whole file
}

// Object is a view, trigger, procedure or event.
type Object struct {
	Kind base.IndexID    `json:"kind"`
	Desc json.RawMessage `json:"desc"`
}

// Files calls fn for each piece of the backup.
func (m *Manifest) Files(fn func(File)) {
	for _, t := range m.Tables {
		for _, s := range t.Streams {
			for _, f := range s.Rows {
				fn(f)
			}
			for _, f := range s.Keys {
				fn(f)
			}
		}
	}
}

// Rows is how many rows there were at the moment of the backup.
func (m *Manifest) Rows() (n int64) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	for _, p := range m.Places {
		n += p.Rows
	}
	return n
}

// Bytes is the size of all pieces.
func (m *Manifest) Bytes() (n int64) {
	m.Files(func(f File) { n += f.Size })
	for _, p := range m.Places {
		n += p.Bytes
	}
	return n
}

// Encode makes the file of a manifest.
func (m *Manifest) Encode(k *Key) ([]byte, error) {
	version := byte(plain)
	if m.Region != "" || len(m.Places) > 0 {
		version = regional
	}
	for _, t := range m.Tables {
		for i := range t.Streams {
			if t.Streams[i].Changes {
				version = changing
			}
		}
	}
	return encodeDocument(manifestMagic, version, m.ID+"/"+ManifestName, k, m)
}

// DecodeManifest reads the manifest of the backup with an id. It returns the key of the backup's
// pieces, nil if they are not sealed.
func DecodeManifest(id string, b []byte, keys *Keyring) (*Manifest, *Key, error) {
	file := id + "/" + ManifestName
	m := new(Manifest)
	key, err := decodeDocument(manifestMagic, "manifest of a backup", file, b, keys, m)
	if err != nil {
		return nil, nil, err
	}
	return m, key, m.check(id, file)
}

// check looks at what readers rely on.
func (m *Manifest) check(id, file string) error {
	if m.ID != id {
		return bad(file, "it is the manifest of backup %q", m.ID)
	}
	if m.Parent != "" && (!IsID(m.Parent) || m.Parent >= m.ID) {
		return bad(file, "it builds on backup %q, which cannot be", m.Parent)
	}
	regions := map[string]bool{}
	for _, p := range m.Places {
		if p.Region == "" || regions[p.Region] || len(p.SHA256) != sha256.Size || p.Rows < 0 || p.Files < 0 || p.Bytes < 0 || m.Region != "" {
			return bad(file, "what it says of the place of region %q cannot be", p.Region)
		}
		regions[p.Region] = true
	}
	for _, t := range m.Tables {
		for i := range t.Streams {
			if !t.Streams[i].check(t.Alone || m.Parent == "") {
				return bad(file, "what it says of shard %d of a table cannot be", t.Streams[i].Shard)
			}
		}
	}
	c := checking{file: file, seen: map[string]bool{}}
	m.Files(c.look)
	return c.wrong
}

// checking looks at what a document says of files.
type checking struct {
	file  string // the document
	seen  map[string]bool
	wrong error
}

func (c *checking) look(f File) {
	switch {
	case c.wrong != nil:
	case !f.named() || c.seen[f.Name]:
		c.wrong = bad(c.file, "it names file %q, which cannot be", f.Name)
	case !f.sized():
		c.wrong = bad(c.file, "what it says of file %s cannot be", f.Name)
	}
	c.seen[f.Name] = true
}

// named reports whether the name is one in the folder of the backup.
func (f *File) named() bool {
	return f.Name != "" && f.Name[0] != '.' && f.Name != ManifestName && !strings.ContainsAny(f.Name, "/\\\x00")
}

// sized reports whether a file may be as large as it is said to be.
func (f *File) sized() bool {
	return len(f.SHA256) == sha256.Size && f.Size > 0 && f.Size <= MostFile && f.Raw >= 0 && f.Raw <= mostRaw && f.Records > 0
}
