// Package sealed encrypts and decrypts bytes of a file by their place in it: AES in counter mode.
// It hides them from who reads the file, and does not notice changes: readers need checksums of
// their own. No place of a file may be written twice with different bytes under one nonce.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// NonceSize is the length of a file's nonce in bytes, which is random.
const NonceSize = aes.BlockSize

// Stream is the key stream of one file. Safe for concurrent use.
type Stream struct {
	block cipher.Block
	nonce [NonceSize]byte
}

// New makes the stream of a key, of 16, 24 or 32 bytes, and a nonce.
func New(key []byte, nonce [NonceSize]byte) (*Stream, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("an AES key has 16, 24 or 32 bytes: %w", err)
	}
	return &Stream{block: b, nonce: nonce}, nil
}

// Random makes a stream of a key and nonce that are known to nobody else: for a file that ends with
// the process.
func Random() (*Stream, error) {
	var key, nonce [NonceSize]byte
	rand.Read(key[:]) // it never fails
	rand.Read(nonce[:])
	return New(key[:], nonce)
}

// XOR encrypts or decrypts src, which begins at an offset of the file, into dst, which is as long,
// and is src itself or does not overlap it.
func (s *Stream) XOR(dst, src []byte, offset int64) {
	if len(src) == 0 {
		return
	}
	hi, lo := binary.BigEndian.Uint64(s.nonce[:8]), binary.BigEndian.Uint64(s.nonce[8:])
	lo, carry := bits.Add64(lo, uint64(offset)/aes.BlockSize, 0)
	var iv [aes.BlockSize]byte
	binary.BigEndian.PutUint64(iv[:8], hi+carry)
	binary.BigEndian.PutUint64(iv[8:], lo)
	c := cipher.NewCTR(s.block, iv[:])
	if skip := offset % aes.BlockSize; skip > 0 {
		var pad [aes.BlockSize]byte
		c.XORKeyStream(pad[:skip], pad[:skip])
	}
	c.XORKeyStream(dst[:len(src)], src)
}
