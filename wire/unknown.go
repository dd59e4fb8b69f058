package wire

// Unknown reports whether the command has a part that this build does not know.
func (m *Command) Unknown() bool { return len(m.unknownFields) > 0 }
