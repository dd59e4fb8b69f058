package feed

// Little makes readers keep little, until the test ends.
func Little(t interface{ Cleanup(func()) }) {
	a, b, c := keptBytes, nextBytes, pageBytes
	t.Cleanup(func() { keptBytes, nextBytes, pageBytes = a, b, c })
	keptBytes, nextBytes, pageBytes = 3000, 700, 300
}
