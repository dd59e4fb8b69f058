package cost

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// sample is one stack of a CPU profile, and the time that was spent in it.
type sample struct {
	stack []string // names of functions, the deepest first
	cpu   time.Duration
}

// Numbers of fields in messages of a profile, as pprof defines them
// (github.com/google/pprof/proto).
const (
	profileSample, profileLocation, profileFunction, profileStrings = 2, 4, 5, 6
	sampleLocations, sampleValues                                   = 1, 2
	locationID, locationLine                                        = 1, 4
	lineFunction                                                    = 1
	functionID, functionName                                        = 1, 2
)

// cpuValue is which of a sample's values is its time in ns: Go writes the number of samples first.
const cpuValue = 1

// rawProfile is what a profile consists of; its parts name each other by number.
type rawProfile struct {
	samples   []rawSample
	locations map[uint64][]uint64 // functions by location, the deepest first: others are inlined
	functions map[uint64]uint64   // names
	strings   []string
}

type rawSample struct{ locations, values []uint64 }

// readProfile decodes a CPU profile as runtime/pprof writes it.
func readProfile(zipped []byte) ([]sample, error) {
	zr, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("this is no profile: %w", err)
	}
	in, err := io.ReadAll(zr)
	if err != nil {
		return nil, fmt.Errorf("this is no profile: %w", err)
	}
	raw := &rawProfile{locations: map[uint64][]uint64{}, functions: map[uint64]uint64{}}
	if err := fields(in, raw.field); err != nil {
		return nil, fmt.Errorf("this is no profile: %w", err)
	}
	return raw.named()
}

// fields calls f for each field of a message: with the bytes of a message, string or packed list,
// or with the number of another one.
func fields(in []byte, f func(num protowire.Number, data []byte, n uint64) error) error {
	for len(in) > 0 {
		num, typ, n := protowire.ConsumeTag(in)
		if n < 0 {
			return protowire.ParseError(n)
		}
		var data []byte
		var v uint64
		var m int
		switch rest := in[n:]; typ {
		case protowire.BytesType:
			data, m = protowire.ConsumeBytes(rest)
		case protowire.VarintType:
			v, m = protowire.ConsumeVarint(rest)
		default:
			m = protowire.ConsumeFieldValue(num, typ, rest)
		}
		if m < 0 {
			return protowire.ParseError(m)
		}
		if err := f(num, data, v); err != nil {
			return err
		}
		in = in[n+m:]
	}
	return nil
}

// field takes a part of the profile.
func (p *rawProfile) field(num protowire.Number, data []byte, _ uint64) error {
	switch num {
	case profileSample:
		return p.addSample(data)
	case profileLocation:
		return p.addLocation(data)
	case profileFunction:
		return p.addFunction(data)
	case profileStrings:
		p.strings = append(p.strings, string(data))
	}
	return nil
}

func (p *rawProfile) addSample(in []byte) error {
	var s rawSample
	err := fields(in, func(num protowire.Number, data []byte, n uint64) (err error) {
		switch num {
		case sampleLocations:
			s.locations, err = numbers(s.locations, data, n)
		case sampleValues:
			s.values, err = numbers(s.values, data, n)
		}
		return err
	})
	p.samples = append(p.samples, s)
	return err
}

// numbers adds those of a list's field, which is packed or one number.
func numbers(to []uint64, packed []byte, one uint64) ([]uint64, error) {
	if packed == nil {
		return append(to, one), nil
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return to, protowire.ParseError(n)
		}
		to, packed = append(to, v), packed[n:]
	}
	return to, nil
}

func (p *rawProfile) addLocation(in []byte) error {
	var id uint64
	var functions []uint64
	err := fields(in, func(num protowire.Number, data []byte, n uint64) error {
		switch num {
		case locationID:
			id = n
		case locationLine:
			return fields(data, func(num protowire.Number, _ []byte, n uint64) error {
				if num == lineFunction {
					functions = append(functions, n)
				}
				return nil
			})
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

func (p *rawProfile) addFunction(in []byte) error {
	var id, name uint64
	err := fields(in, func(num protowire.Number, _ []byte, n uint64) error {
		switch num {
		case functionID:
			id = n
		case functionName:
			name = n
		}
		return nil
	})
	p.functions[id] = name
	return err
}

// named puts the names into the samples.
func (p *rawProfile) named() ([]sample, error) {
	all := make([]sample, 0, len(p.samples))
	for _, r := range p.samples {
		if len(r.values) <= cpuValue {
			return nil, errors.New("this is no CPU profile: a sample has no time")
		}
		s := sample{cpu: time.Duration(r.values[cpuValue])}
		for _, l := range r.locations {
			for _, f := range p.locations[l] {
				name := p.functions[f]
				if name >= uint64(len(p.strings)) {
					return nil, errors.New("this is no profile: a function has no name")
				}
				s.stack = append(s.stack, p.strings[name])
			}
		}
		all = append(all, s)
	}
	return all, nil
}
