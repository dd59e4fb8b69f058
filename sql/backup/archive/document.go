package archive

import (
	"crypto/sha256"
	"encoding/json"
)

// A document is a file that holds JSON: what it is, whether it is sealed, the salt of its key, the
// compressed text, and a SHA-256 of all that.

const flagSealed = 1

func encodeDocument(magic string, version byte, file string, k *Key, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b := append([]byte(magic), version)
	if k == nil {
		b = append(b, 0)
	} else {
		b = append(append(b, flagSealed), k.salt[:]...)
	}
	if b, err = k.seal(file, b, compress(text)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// decodeDocument reads a document into v. It returns its key, nil if it is not sealed.
func decodeDocument(magic, what, file string, b []byte, keys *Keyring, v any) (*Key, error) {
	if err := checkHead(file, b, magic, what); err != nil {
		return nil, err
	}
	n := len(b) - sha256.Size
	if n <= magicLen {
		return nil, bad(file, "it is cut off")
	}
	if sum := sha256.Sum256(b[:n]); string(sum[:]) != string(b[n:]) {
		return nil, bad(file, "it is damaged or cut off: its checksum does not fit")
	}
	key, head, err := documentKey(file, b[:n], keys)
	if err != nil {
		return nil, err
	}
	text, err := key.open(file, b[:n], head)
	if err != nil {
		return nil, err
	}
	if text, err = decompress(file, text, mostManifest); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, bad(file, "it cannot be read: %v", err)
	}
	return key, nil
}

// documentKey is the key of a document, and where its head ends.
func documentKey(file string, b []byte, keys *Keyring) (*Key, int, error) {
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
		if err == nil && key == nil {
			err = bad(file, "it was encrypted with another passphrase than the backup that the job is of")
		}
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

// Part is how far a backup has come with a stream, so that another node can go on.
type Part struct {
	Stream Stream `json:"stream"` // the pieces that are there
	// Next is the first key, behind table and index, that they lack; Done: they lack none.
	Next []byte `json:"next,omitempty"`
	Done bool   `json:"done,omitempty"`
	All  int64  `json:"all"`           // rows so far, changed or not
	Sum  *Sum   `json:"sum,omitempty"` // of these rows
}

// Further reports whether a part is further than another one of its stream. Who has begun to read
// all rows in the place of changes had to.
func (p *Part) Further(was *Part) bool {
	switch {
	case p.Done || was.Done:
		return p.Done
	case p.Stream.Changes != was.Stream.Changes:
		return was.Stream.Changes
	}
	return string(p.Next) > string(was.Next)
}

// Encode makes the file of a part.
func (p *Part) Encode(id, name string, k *Key) ([]byte, error) {
	version := byte(plain)
	if p.Stream.Changes {
		version = changing
	}
	return encodeDocument(partMagic, version, id+"/"+name, k, p)
}

// DecodePart reads the file of a part of the backup with an id.
func DecodePart(id, name string, b []byte, keys *Keyring) (*Part, error) {
	file := id + "/" + name
	p := new(Part)
	if _, err := decodeDocument(partMagic, "part of a backup", file, b, keys, p); err != nil {
		return nil, err
	}
	if p.All < 0 || p.Done != (p.Next == nil) || !p.Stream.check(false) {
		return nil, bad(file, "what it says cannot be")
	}
	c := checking{file: file, seen: map[string]bool{}}
	for _, list := range [][]File{p.Stream.Rows, p.Stream.Keys} {
		for _, f := range list {
			c.look(f)
		}
	}
	return p, c.wrong
}
