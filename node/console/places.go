package console

import (
	_ "embed" // places.json
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Place is where a region is.
type Place struct {
	Lat   float64 `json:"lat"` // degrees
	Lon   float64 `json:"lon"`
	Known bool    `json:"known"` // false: it is drawn on a ring
}

//go:embed places.json
var placesJSON []byte

// wellKnown are the regions of clouds, and cities.
var wellKnown = func() map[string]Place {
	var read map[string][2]float64
	if err := json.Unmarshal(placesJSON, &read); err != nil {
		panic(err) // it is part of the binary, and a test reads it
	}
	out := map[string]Place{}
	for name, p := range read {
		out[name] = Place{Lat: p[0], Lon: p[1], Known: true}
	}
	return out
}()

// maxPlaces bounds the regions in the setting console.places.
const maxPlaces = 1000

// ParsePlaces reads the setting console.places: "REGION LATITUDE LONGITUDE; ...", in degrees, north
// and east positive.
func ParsePlaces(text string) (map[string]Place, error) {
	out := map[string]Place{}
	for part := range strings.SplitSeq(text, ";") {
		f := strings.Fields(part)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("%q is not REGION LATITUDE LONGITUDE", strings.TrimSpace(part))
		}
		lat, err1 := strconv.ParseFloat(f[1], 64)
		lon, err2 := strconv.ParseFloat(f[2], 64)
		if err1 != nil || err2 != nil || !(math.Abs(lat) <= 90) || !(math.Abs(lon) <= 180) {
			return nil, fmt.Errorf("%q: the latitude is -90 to 90, the longitude -180 to 180", strings.TrimSpace(part))
		}
		out[f[0]] = Place{Lat: lat, Lon: lon, Known: true}
		if len(out) > maxPlaces {
			return nil, fmt.Errorf("more than %d regions", maxPlaces)
		}
	}
	return out, nil
}

// locate places regions: where the setting says, else by their names, else on a ring in the
// order of their names.
func locate(regions []string, given map[string]Place) map[string]Place {
	out, lost := map[string]Place{}, []string{}
	for _, r := range slices.Compact(slices.Sorted(slices.Values(regions))) {
		if p, ok := given[r]; ok {
			out[r] = p
		} else if p, ok := byName(r); ok {
			out[r] = p
		} else {
			lost = append(lost, r)
		}
	}
	for i, r := range lost {
		a := 2 * math.Pi * float64(i) / float64(len(lost))
		out[r] = Place{Lat: 10 + 35*math.Cos(a), Lon: -30 + 60*math.Sin(a)}
	}
	return out
}

// byName is the well-known place whose name is in the name of a region, as words of it. The longest
// one counts: prod-eu-west-1 is eu-west-1, and not eu.
func byName(region string) (Place, bool) {
	words := strings.FieldsFunc(strings.ToLower(region), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	text := "-" + strings.Join(words, "-") + "-"
	best := ""
	for _, name := range slices.Sorted(maps.Keys(wellKnown)) {
		if len(name) > len(best) && strings.Contains(text, "-"+name+"-") {
			best = name
		}
	}
	// a zone of a region has a letter more: eu-west-1b
	if z := strings.TrimSuffix(text, "-"); len(z) > 2 && unicode.IsLetter(rune(z[len(z)-1])) && unicode.IsDigit(rune(z[len(z)-2])) {
		if p, ok := byName(z[:len(z)-1]); ok {
			return p, true
		}
	}
	p, ok := wellKnown[best]
	return p, ok
}
