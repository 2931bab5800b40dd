//! Forgets what the oracle said for iterations that all partitions have passed.

use crate::machine::Machine;
use crate::oracle::{Node, Run, Way};
use crate::program::What;
use crate::state::{State, Status, times};

impl Machine<'_> {
    /// Drops iterations that no agent can come to any more, so that equal states are equal.
    pub(crate) fn forget_passed(&self, state: &mut State) {
        let mut oracle = std::mem::take(&mut state.oracle);
        self.prune(state, &mut oracle, &mut Way::new());
        state.oracle = oracle;
    }

    fn prune(&self, state: &mut State, node: &mut Node, way: &mut Way) {
        let mut at = 0;
        while at < node.streams.len() {
            let run = node.streams[at].0;
            let Some(first) = self.first_needed(state, way, run) else {
                node.streams.remove(at);
                continue;
            };
            let stream = &mut node.streams[at].1;
            let passed = first.min(stream.nodes.len() as u32);
            stream.nodes.drain(..passed as usize);
            if passed > 0 {
                shift(state, way, run, passed);
            }
            for (index, inner) in node.streams[at].1.nodes.iter_mut().enumerate() {
                if !inner.streams.is_empty() {
                    way.push((run, index as u32));
                    self.prune(state, inner, way);
                    way.pop();
                }
            }
            at += 1;
        }
    }

    /// The first iteration of a run at which an agent is, or comes; none where all have left the run.
    fn first_needed(&self, state: &State, way: &Way, run: Run) -> Option<u32> {
        let all = (0..state.agents.len()).filter_map(|agent| {
            let takes_part = self.takes_part(agent, way, run);
            takes_part
                .then(|| self.position(state, agent, way, run))
                .flatten()
        });
        all.min()
    }

    fn takes_part(&self, agent: usize, way: &Way, run: Run) -> bool {
        let partition = &self.program.partitions[self.warps[agent].partition];
        partition.loops.iter().any(|id| {
            let l = &self.program.loops[*id];
            let is_here = l.around.iter().eq(way.iter().map(|((class, _), _)| class));
            l.class == run.0 && !l.is_fixed && is_here
        })
    }

    /// Where the agent is in a run; none where it has left it.
    fn position(&self, state: &State, agent: usize, way: &Way, run: Run) -> Option<u32> {
        let own = &state.agents[agent];
        let steps = &self.program.partitions[0].steps;
        let has_joined = |at: usize| matches!(steps.get(at).map(|s| &s.what), Some(What::Join));
        if own.status == Status::Ended || self.warps[agent].partition == 0 && has_joined(own.at) {
            return None;
        }
        let wanted = way.iter().copied().map(|(run, at)| (run, Some(at)));
        let wanted = wanted.chain([(run, None)]);
        let frames: Vec<_> = own
            .frames
            .iter()
            .filter_map(|f| Some((f.run?, f.at)))
            .collect();
        for (depth, (run, at)) in wanted.enumerate() {
            match frames.get(depth) {
                Some((here, position)) if *here == run => match at {
                    Some(at) if *position > at => return None,
                    Some(at) if *position < at => return Some(0),
                    Some(_) => {}
                    None => return Some(*position),
                },
                _ => {
                    let entered = times(own.runs_at(depth), run.0);
                    return (entered <= run.1).then_some(0);
                }
            }
        }
        Some(0)
    }
}

/// Counts the iterations of a run from a later one.
fn shift(state: &mut State, way: &Way, run: Run, by: u32) {
    for agent in &mut state.agents {
        let mut frames = agent.frames.iter_mut().filter(|f| f.run.is_some());
        let is_on_way = way.iter().all(|(run, at)| {
            let frame = frames.next();
            frame.is_some_and(|f| f.run == Some(*run) && f.at == *at)
        });
        if let Some(frame) = frames.next()
            && is_on_way
            && frame.run == Some(run)
        {
            frame.at -= by;
        }
    }
}
