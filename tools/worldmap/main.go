// Command worldmap makes the map of the console: the outlines of the land, as JSON that is small
// enough to be part of the binary.
//
// Its input is land-110m.json of the npm package world-atlas, which is Natural Earth's land at
// 1:110,000,000 as TopoJSON: arcs of differences between whole numbers, and rings that are made of
// arcs. `make console` fetches it and runs this.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
)

// topology is what is used of a TopoJSON file.
type topology struct {
	Transform struct {
		Scale, Translate [2]float64
	}
	Arcs    [][][2]float64
	Objects struct {
		Land struct {
			Geometries []struct {
				Type string
				Arcs [][][]int // polygons of rings of arcs
			}
		}
	}
}

// world is the output. A ring is longitude and latitude of its first point, and then the
// differences from point to point, all in tenths of a degree.
type world struct {
	Source  string  `json:"source"`
	Licence string  `json:"licence"`
	Rings   [][]int `json:"rings"`
}

// least is the extent below which an island is left out, in tenths of a degree.
const least = 8

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "worldmap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: worldmap LAND-110M.JSON WORLD.JSON")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var t topology
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	rings, err := t.rings()
	if err != nil {
		return err
	}
	out, err := json.Marshal(world{
		Source: "Natural Earth, land 1:110m, by way of world-atlas 2.0.2; rounded to a tenth of a degree, " +
			"without Antarctica and small islands",
		Licence: "public domain (Natural Earth); ISC (world-atlas, Copyright 2013-2019 Michael Bostock)",
		Rings:   rings,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], append(out, '\n'), 0o644)
}

func (t *topology) rings() (out [][]int, err error) {
	for _, g := range t.Objects.Land.Geometries {
		if g.Type != "MultiPolygon" {
			return nil, fmt.Errorf("the land has a %s, and only a MultiPolygon is known", g.Type)
		}
		for _, polygon := range g.Arcs {
			for _, ring := range polygon {
				points, err := t.ring(ring)
				if err != nil {
					return nil, err
				}
				if r := encode(points); r != nil {
					out = append(out, r)
				}
			}
		}
	}
	if len(out) < 20 {
		return nil, fmt.Errorf("only %d rings were found: is this land-110m.json of world-atlas?", len(out))
	}
	return out, nil
}

// ring joins arcs. A negative number is the arc of its complement, backwards.
func (t *topology) ring(arcs []int) (out [][2]int, err error) {
	for _, a := range arcs {
		back := a < 0
		if back {
			a = ^a
		}
		if a >= len(t.Arcs) {
			return nil, fmt.Errorf("arc %d is not there", a)
		}
		points := t.arc(t.Arcs[a])
		if back {
			slices.Reverse(points)
		}
		for _, p := range points {
			if len(out) == 0 || out[len(out)-1] != p {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// arc is an arc's points in tenths of a degree.
func (t *topology) arc(steps [][2]float64) (out [][2]int) {
	var at [2]float64
	for _, s := range steps {
		var p [2]int
		for i := range at {
			at[i] += s[i]
			p[i] = int(math.Round(10 * (at[i]*t.Transform.Scale[i] + t.Transform.Translate[i])))
		}
		out = append(out, p)
	}
	return out
}

// encode is a ring by differences; nil if it is left out.
func encode(points [][2]int) (out []int) {
	low, high := [2]int{math.MaxInt, math.MaxInt}, [2]int{math.MinInt, math.MinInt}
	for _, p := range points {
		for i := range p {
			low[i], high[i] = min(low[i], p[i]), max(high[i], p[i])
		}
	}
	if len(points) < 4 || high[1] < -600 || high[0]-low[0] < least && high[1]-low[1] < least {
		return nil
	}
	var last [2]int
	for _, p := range points {
		out = append(out, p[0]-last[0], p[1]-last[1])
		last = p
	}
	return out
}
