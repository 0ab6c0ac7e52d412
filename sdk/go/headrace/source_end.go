package headrace

import "time"

// leaveFor reads no more, and ends the session once everything is acknowledged, or after a while. With flush, what was read is
// sent first.
func (s *sourceSession) leaveFor(why error, timeout time.Duration, flush bool) {
	if s.leaving != nil {
		return
	}
	s.leaving = why
	if why != errStop && why != errDrained {
		s.c.log.Warn("the connector ends, once what was read is acknowledged", "error", why)
	}
	for _, st := range s.streams {
		st.pause()
	}
	if flush {
		s.send.flushing = true
		now := time.Now()
		for _, st := range s.streams {
			s.send.look(st, now)
		}
	} else {
		s.send.quiet = true
	}
	s.leave.Reset(timeout)
}

// leaveLate ends the session though something is not acknowledged. It comes again with the next one.
func (s *sourceSession) leaveLate() {
	for _, st := range s.streams {
		if st.unsent() || st.unacknowledged() {
			s.c.log.Info("not acknowledged in time, to be sent again", "stream", st.name)
		}
	}
	s.finish(s.leaving)
}

// lookForEnd ends the session if there is nothing left to do.
func (s *sourceSession) lookForEnd() {
	if s.leaving == nil || s.outstanding() || len(s.send.control) > 0 {
		return
	}
	for _, st := range s.streams {
		if !s.send.quiet && st.unsent() {
			return
		}
	}
	s.finish(s.leaving)
}

// finish ends the session, once.
func (s *sourceSession) finish(why error) {
	if s.result == nil {
		s.result = why
	}
}
