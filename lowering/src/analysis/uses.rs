//! Who uses a value.

use cranelift_entity::SecondaryMap;
use ir::Func;
use ir::entity::{Inst, Value};

/// The users of every value, in program order. An instruction that uses a value twice stands there twice.
#[derive(Clone, Debug)]
pub struct Uses {
    /// Where the users of each value begin in `users`, and how many they are.
    spans: SecondaryMap<Value, (u32, u32)>,
    users: Vec<Inst>,
}

impl Uses {
    /// Collects the uses of a kernel.
    pub fn of(func: &Func) -> Uses {
        let insts = func.walk();
        let mut spans: SecondaryMap<Value, (u32, u32)> =
            SecondaryMap::with_capacity(func.value_count());
        let mut total = 0;
        for &inst in &insts {
            func.op(inst).rules().visit(&mut |v| {
                spans[v].1 += 1;
                total += 1;
            });
        }
        let mut start = 0;
        for value in func.values() {
            let span = &mut spans[value];
            span.0 = start;
            start += span.1;
            span.1 = 0;
        }
        let mut users = vec![Inst::from_u32(0); total];
        for &inst in &insts {
            func.op(inst).rules().visit(&mut |v| {
                let (start, count) = &mut spans[v];
                users[(*start + *count) as usize] = inst;
                *count += 1;
            });
        }
        Uses { spans, users }
    }

    /// The users of `value`.
    pub fn of_value(&self, value: Value) -> &[Inst] {
        let (start, count) = self.spans[value];
        &self.users[start as usize..(start + count) as usize]
    }
}
