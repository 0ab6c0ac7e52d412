package frame

import (
	"encoding/binary"
	"math"
)

// nullLength stands for null in a column of lengths; it adds nothing to the data.
const nullLength = math.MaxUint32

// column holds the entries of one column, joined, and the length of each as little-endian u32. It stays empty until the first
// entry that is not null, as most optional columns do.
type column struct {
	data    []byte
	lengths []byte
	present bool // some entry is not null, or the column is required
}

// add appends the entry at index; nil is null.
func (c *column) add(entry []byte, index int) {
	if entry == nil {
		if c.present {
			c.lengths = binary.LittleEndian.AppendUint32(c.lengths, nullLength)
		}
		return
	}
	c.fill(index)
	c.data = append(c.data, entry...)
	c.lengths = binary.LittleEndian.AppendUint32(c.lengths, uint32(len(entry)))
}

// addText appends a text that is not null.
func (c *column) addText(entry string, index int) {
	c.fill(index)
	c.data = append(c.data, entry...)
	c.lengths = binary.LittleEndian.AppendUint32(c.lengths, uint32(len(entry)))
}

// fill makes the column present; the entries before index were null.
func (c *column) fill(index int) {
	if c.present {
		return
	}
	c.present = true
	for range index {
		c.lengths = binary.LittleEndian.AppendUint32(c.lengths, nullLength)
	}
}

// at returns how many bytes of data the entry at index has.
func (c *column) at(index int) int {
	if !c.present {
		return 0
	}
	if length := binary.LittleEndian.Uint32(c.lengths[4*index:]); length != nullLength {
		return int(length)
	}
	return 0
}

// slice returns the data and the lengths of a range of entries.
func (c *column) slice(fromEntry, toEntry, fromByte, toByte int) (data, lengths []byte) {
	if !c.present {
		return nil, nil
	}
	return c.data[fromByte:toByte], c.lengths[4*fromEntry : 4*toEntry]
}

// size is how many bytes the column takes.
func (c *column) size() int {
	return len(c.data) + len(c.lengths)
}
