package avro

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// File makes an object container file of values of one schema. codec is "zstd", or empty.
func File(schema string, values [][]byte, codec string) ([]byte, error) {
	b := []byte("Obj\x01")
	meta := [][2]string{{"avro.schema", schema}, {"avro.codec", "null"}}
	if codec != "" {
		meta[1][1] = "zstandard"
	}
	b = long(b, int64(len(meta)))
	for _, m := range meta {
		b = str(str(b, m[0]), m[1])
	}
	b = long(b, 0)
	var block []byte
	for _, v := range values {
		block = append(block, v...)
	}
	sum := sha256.Sum256(block)
	sync := sum[:16]
	b = append(b, sync...)
	if codec != "" {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		block = w.EncodeAll(block, nil)
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
	return append(raw(long(b, int64(len(values))), block), sync...), nil
}

// Framed is a message as Confluent's readers take it: a zero, the number of the schema, and the
// value.
func Framed(id int32, value []byte) []byte {
	b := make([]byte, 5, 5+len(value))
	binary.BigEndian.PutUint32(b[1:], uint32(id))
	return append(b, value...)
}
