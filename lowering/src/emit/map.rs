//! A scalar function of each element: its region is emitted once for each pack, so that what belongs to one element stands
//! together and few registers live at once.

use ir::entity::{Inst, Value};
use ir::ops::control::yielded;
use ir::ops::map::Map;

use super::element::{Element, Elements};
use super::{Emitted, Emitter, Lower};

impl Lower for Map {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let pack = self.pack as usize;
        let lists: Vec<Elements> = self.operands.iter().map(|v| cx.elements(*v)).collect();
        let params: Vec<Value> = cx.func.region(self.body).params.to_vec();
        let results: Vec<Value> = cx.func.results(inst).to_vec();
        let given: Vec<Value> = yielded(cx.func, self.body).to_vec();
        let count = lists[0].len();
        let mut columns: Vec<Vec<Element>> = vec![Vec::with_capacity(count); results.len()];
        let was_divergent = cx.code.begin_divergent();
        for at in (0..count).step_by(pack) {
            for (params, list) in params.chunks(pack).zip(&lists) {
                for (&param, &element) in params.iter().zip(&list[at..at + pack]) {
                    cx.set(param, vec![element]);
                }
            }
            cx.region(self.body)?;
            for (column, values) in columns.iter_mut().zip(given.chunks(pack)) {
                column.extend(values.iter().map(|v| cx.scalar(*v)));
            }
        }
        cx.code.end_divergent(was_divergent);
        for (result, column) in results.into_iter().zip(columns) {
            cx.set(result, column);
        }
        Ok(())
    }
}
