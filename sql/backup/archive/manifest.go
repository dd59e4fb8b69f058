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
}

// Table is one table of a backup.
type Table struct {
	Desc json.RawMessage `json:"desc"`
	// Counter is the next value of AUTO_INCREMENT; 0: there is none.
	Counter uint64 `json:"counter,omitempty"`
	// Rows are those of the table at the moment of the backup.
	Rows int64 `json:"rows"`
	// Alone says that the streams hold everything, and nothing of the parent counts.
	Alone   bool     `json:"alone,omitempty"`
	Streams []Stream `json:"streams"`
}

// Stream is a shard of a table: pieces in the order of keys.
type Stream struct {
	Shard base.ShardID `json:"shard"`
	Rows  []File       `json:"rows,omitempty"`
	Keys  []File       `json:"keys,omitempty"`
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
	return n
}

// Bytes is the size of all pieces.
func (m *Manifest) Bytes() (n int64) {
	m.Files(func(f File) { n += f.Size })
	return n
}

const flagSealed = 1

// Encode makes the file of a manifest.
func (m *Manifest) Encode(k *Key) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b := append([]byte(manifestMagic), Version)
	if k == nil {
		b = append(b, 0)
	} else {
		b = append(append(b, flagSealed), k.salt[:]...)
	}
	if b, err = k.seal(m.ID+"/"+ManifestName, b, compress(text)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// DecodeManifest reads the manifest of the backup with an id. It returns the key of the backup's
// pieces, nil if they are not sealed.
func DecodeManifest(id string, b []byte, keys *Keyring) (*Manifest, *Key, error) {
	file := id + "/" + ManifestName
	if err := checkHead(file, b, manifestMagic, "manifest of a backup"); err != nil {
		return nil, nil, err
	}
	n := len(b) - sha256.Size
	if n <= magicLen {
		return nil, nil, bad(file, "it is cut off")
	}
	if sum := sha256.Sum256(b[:n]); string(sum[:]) != string(b[n:]) {
		return nil, nil, bad(file, "it is damaged or cut off: its checksum does not fit")
	}
	key, head, err := manifestKey(file, b[:n], keys)
	if err != nil {
		return nil, nil, err
	}
	text, err := key.open(file, b[:n], head)
	if err != nil {
		return nil, nil, err
	}
	if text, err = decompress(file, text, mostManifest); err != nil {
		return nil, nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, nil, bad(file, "it cannot be read: %v", err)
	}
	return m, key, m.check(id, file)
}

// manifestKey is the key of a manifest, and where its head ends.
func manifestKey(file string, b []byte, keys *Keyring) (*Key, int, error) {
	head := magicLen + 1
	switch b[magicLen] {
	case 0:
		// Who gives a passphrase relies on it: a backup without encryption may be anybody's.
		if keys != nil {
			return nil, 0, bad(file, "the backup is not encrypted, and a passphrase was given: leave it out if that is right")
		}
		return nil, head, nil
	case flagSealed:
		if keys == nil {
			return nil, 0, bad(file, "the backup is encrypted: give the passphrase, WITH encryption_passphrase = '...'")
		}
		if len(b) < head+saltSize {
			return nil, 0, bad(file, "it is cut off")
		}
		key, err := keys.at([saltSize]byte(b[head:]))
		return key, head + saltSize, err
	}
	return nil, 0, bad(file, "it has flags that this release does not know: use a newer one")
}

func checkHead(file string, b []byte, magic, what string) error {
	if len(b) < magicLen || string(b[:len(magic)]) != magic {
		return bad(file, "it is not the %s", what)
	}
	if v := b[len(magic)]; v == 0 || v > Version {
		return bad(file, "it has format %d, this release reads up to %d: use a newer one", v, Version)
	}
	return nil
}

// check looks at what readers rely on.
func (m *Manifest) check(id, file string) error {
	if m.ID != id {
		return bad(file, "it is the manifest of backup %q", m.ID)
	}
	if m.Parent != "" && (!IsID(m.Parent) || m.Parent >= m.ID) {
		return bad(file, "it builds on backup %q, which cannot be", m.Parent)
	}
	seen := map[string]bool{}
	var wrong error
	m.Files(func(f File) {
		switch {
		case wrong != nil:
		case !f.named() || seen[f.Name]:
			wrong = bad(file, "it names file %q, which cannot be", f.Name)
		case !f.sized():
			wrong = bad(file, "what it says of file %s cannot be", f.Name)
		}
		seen[f.Name] = true
	})
	return wrong
}

// named reports whether the name is one in the folder of the backup.
func (f *File) named() bool {
	return f.Name != "" && f.Name[0] != '.' && f.Name != ManifestName && !strings.ContainsAny(f.Name, "/\\\x00")
}

// sized reports whether a file may be as large as it is said to be.
func (f *File) sized() bool {
	return len(f.SHA256) == sha256.Size && f.Size > 0 && f.Size <= MostFile && f.Raw >= 0 && f.Raw <= mostRaw && f.Records > 0
}
