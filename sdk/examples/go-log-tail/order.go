package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// seenFiles is how many of the files before the present one a cursor has: they tell in which order numbers count.
	seenFiles = 8
	// tellingBytes is how much two files must have in common to be one, if their inodes differ.
	tellingBytes = 256
)

var (
	// aStamp is what a rotation adds to a name: 1, 20261123, 2026-11-23, old.
	aStamp = regexp.MustCompile(`^(\d[\d.:TZ_+-]*|old)$`)
	digits = regexp.MustCompile(`\d+`)
)

// done is a file of a log that was read to its end.
type done struct {
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Print string `json:"print"` // its fingerprint at this size
}

// bases returns the names that a file may have had before a rotation: a stamp follows them, or what is before their extension.
func bases(name string) []string {
	var found []string
	extension := filepath.Ext(name)
	for at := len(name) - 1; at > 0; at-- {
		if !strings.ContainsRune("._-", rune(name[at])) {
			continue
		}
		if aStamp.MatchString(name[at+1:]) {
			found = append(found, name[:at])
		} else if end := len(name) - len(extension); at < end && aStamp.MatchString(name[at+1:end]) {
			found = append(found, name[:at]+extension)
		}
	}
	return found
}

// stamp is the place of a rotated file among the others, as its name tells it.
type stamp struct {
	scheme  int   // 0 without digits, 1 with a plain number, 2 with a date
	numbers []int // the date as one number, and what follows it
}

// stampOf reads the stamp in the name of a file of a log.
func stampOf(name, log string) stamp {
	text, ok := strings.CutPrefix(name, log)
	if !ok {
		extension := filepath.Ext(log)
		text = strings.TrimSuffix(strings.TrimPrefix(name, strings.TrimSuffix(log, extension)), extension)
	}
	var found stamp
	groups := digits.FindAllString(text, -1)
	if len(groups) == 0 {
		return found
	}
	found.scheme = 2
	if len(groups) == 1 && len(groups[0]) <= 5 {
		found.scheme = 1
	}
	if len(groups) >= 3 && len(groups[0]) == 4 {
		groups = append([]string{groups[0] + twoDigits(groups[1]) + twoDigits(groups[2])}, groups[3:]...)
	}
	for _, group := range groups {
		number, err := strconv.Atoi(group)
		if err != nil {
			number = 1<<62 - 1
		}
		found.numbers = append(found.numbers, number)
	}
	return found
}

func twoDigits(text string) string {
	return strings.Repeat("0", max(0, 2-len(text))) + text
}

// sortByName sorts the files of a log, the oldest first: by the dates and numbers in their names. Plain numbers count down, as
// with logrotate, unless countsUp is set. Files whose names tell nothing, or in different ways, are sorted by their times.
func sortByName(members []member, log string, countsUp bool) {
	newest := map[int]int64{}
	for _, m := range members {
		scheme := stampOf(filepath.Base(m.path), log).scheme
		newest[scheme] = max(newest[scheme], m.info.ModTime().UnixNano())
	}
	slices.SortStableFunc(members, func(a, b member) int {
		switch {
		case a.isLive(log):
			return 1
		case b.isLive(log):
			return -1
		}
		one, other := stampOf(filepath.Base(a.path), log), stampOf(filepath.Base(b.path), log)
		if one.scheme != other.scheme {
			return int(max(-1, min(1, newest[one.scheme]-newest[other.scheme])))
		}
		order := slices.Compare(one.numbers, other.numbers)
		if one.scheme == 1 && !countsUp {
			order = -order
		}
		if order == 0 {
			order = a.info.ModTime().Compare(b.info.ModTime())
		}
		return order
	})
}

// sortUnread sorts the files of a log of which none was read, the oldest first. Numbers count up only if every time of
// modification agrees.
func sortUnread(members []member, log string) {
	sortByName(members, log, true)
	count, countsUp := 0, true
	var last member
	for _, m := range members {
		if stampOf(filepath.Base(m.path), log).scheme != 1 || m.isLive(log) {
			continue
		}
		if count++; count > 1 {
			countsUp = countsUp && last.info.ModTime().Before(m.info.ModTime())
		}
		last = m
	}
	if count < 2 || !countsUp {
		sortByName(members, log, false)
	}
}

// what a file next to the present one is.
const (
	isNew = iota
	isPerhapsSeen
	isSeen
	isEmpty
)

// what tells whether a file was read before.
func (t *tail) what(m member) int {
	if m.info.Size() == 0 {
		return isEmpty
	}
	found := isNew
	for _, each := range t.seen {
		if m.info.Size() < each.Size {
			continue
		}
		opened, err := t.logs.files.open(m)
		if err != nil {
			return isPerhapsSeen
		}
		print, err := fingerprint(opened, each.Size)
		if errors.Join(err, opened.Close()) != nil || print != each.Print {
			continue
		}
		if m.inode() == each.Inode || each.Size >= tellingBytes {
			return isSeen
		}
		found = isPerhapsSeen
	}
	return found
}

// agrees says whether no file before the present one is new, and none after it was read, in the order of members.
func (t *tail) agrees(members []member, at int) bool {
	for _, m := range members[at+1:] {
		if !m.isLive(t.log) && t.what(m) == isSeen {
			return false
		}
	}
	for at--; at >= 0; at-- {
		switch t.what(members[at]) {
		case isEmpty:
			continue
		case isNew:
			return false
		}
		return true
	}
	return true
}

// sorted puts the files of a log into the order in which they were written, as far as that can be told, and returns the place of
// the open one: -1 if it was removed, in which case only files that were not read are left. It returns false if the order
// is unknown.
func (t *tail) sorted(members []member, own os.FileInfo) ([]member, int, bool) {
	for _, countsUp := range []bool{false, true} {
		sortByName(members, t.log, countsUp)
		at := slices.IndexFunc(members, func(m member) bool { return os.SameFile(m.info, own) })
		if at < 0 {
			return t.unread(members), -1, true
		}
		if members[at].isLive(t.log) || t.agrees(members, at) {
			return members, at, true
		}
	}
	return members, 0, false
}
