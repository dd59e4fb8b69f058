package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"math/rand/v2"
	"testing"
)

// TestAnyPlace: pieces at any place come to what the library makes of the whole file, also where
// the counter overflows its lower half.
func TestAnyPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := bytes.Repeat([]byte{7}, 32)
	for _, nonce := range [][NonceSize]byte{{1, 2, 3}, {8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xfe}} {
		s, err := New(key, nonce)
		if err != nil {
			t.Fatal(err)
		}
		plain := make([]byte, 5000)
		for i := range plain {
			plain[i] = byte(rng.Uint32())
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(plain))
		cipher.NewCTR(block, nonce[:]).XORKeyStream(want, plain)
		for range 300 {
			from := rng.IntN(len(plain))
			to := from + rng.IntN(len(plain)-from+1)
			got := make([]byte, to-from)
			s.XOR(got, plain[from:to], int64(from))
			if !bytes.Equal(got, want[from:to]) {
				t.Fatalf("%d to %d", from, to)
			}
			if s.XOR(got, got, int64(from)); !bytes.Equal(got, plain[from:to]) {
				t.Fatalf("%d to %d and back", from, to)
			}
		}
	}
	if _, err := New(key[:5], [NonceSize]byte{}); err == nil {
		t.Error("a key of five bytes")
	}
	a, _ := Random()
	b, _ := Random()
	x, y := make([]byte, 16), make([]byte, 16)
	a.XOR(x, x, 0)
	b.XOR(y, y, 0)
	if bytes.Equal(x, y) {
		t.Error("two random streams are the same")
	}
}

func BenchmarkXOR(b *testing.B) {
	s, _ := Random()
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		s.XOR(buf, buf, 12345)
	}
}
