//! What a launch checks of its arguments, in C.

use std::fmt::Write;

use launch::{Condition, DataType, Parameter, Role};

use super::pack::NO_VALUE;
use super::{Tensor, Unit, c_name};

impl Unit<'_> {
    pub(super) fn check(&self, text: &mut String) {
        for size in self.manifest.sizes() {
            let _ = writeln!(
                text,
                "  if (s_{size} < 0) return tk_fail(&kernel, TK_ERROR_VALUE, \"{size} is %lld; it cannot be negative\", (long long)s_{size});"
            );
        }
        for tensor in &self.tensors {
            let name = &tensor.parameter.name;
            for dimension in 0..tensor.extents.len() {
                let _ = writeln!(
                    text,
                    "  if ({name}_shape_{dimension} < 0 || {name}_stride_{dimension} < 0)\n    return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} has \
                     %lld elements in steps of %lld along dimension {dimension}; neither can be negative\", (long \
                     long){name}_shape_{dimension}, (long long){name}_stride_{dimension});"
                );
            }
        }
        let _ = writeln!(text, "  {NO_VALUE}");
        for tensor in &self.tensors {
            self.check_places(text, tensor);
        }
        for parameter in &self.manifest.parameters {
            check_parameter(text, parameter);
        }
        for condition in &self.manifest.requires {
            self.check_condition(text, condition);
        }
        self.check_apart(text);
    }

    /// What is written, in strides that the caller says, has no two elements in one place.
    fn check_places(&self, text: &mut String, tensor: &Tensor<'_>) {
        let (name, rank) = (&tensor.parameter.name, tensor.extents.len());
        if !tensor.parameter.is_written || !(0..rank).any(|at| self.is_free(tensor, at)) {
            return;
        }
        let all = |what: &str| {
            let all = (0..rank).map(|at| format!("{name}_{what}_{at}"));
            all.collect::<Vec<_>>().join(", ")
        };
        let _ = writeln!(
            text,
            "  {{\n    const int64_t shape[] = {{{}}}, strides[] = {{{}}};\n    code = tk_check_places(&kernel, \"{name}\", {rank}, shape, \
             strides);\n    if (code) return code;\n  }}",
            all("shape"),
            all("stride"),
        );
    }

    pub(super) fn check_condition(&self, text: &mut String, condition: &Condition) {
        let Condition {
            left,
            comparison,
            right,
        } = condition;
        // A value's place in the text, which itself may have a `%` of an expression.
        let refusal = self.manifest.refusal(condition, "\0", "\0");
        let values = [
            "",
            ", (long long)left",
            ", (long long)left, (long long)right",
        ];
        let _ = writeln!(
            text,
            "  {{\n    const int64_t left = {}, right = {};\n    if (!bad && !(left {} right)) return tk_fail(&kernel, TK_ERROR_VALUE, \
             \"{}\"{});\n  }}",
            self.value(left),
            self.value(right),
            comparison.symbol(),
            refusal.replace('%', "%%").replace('\0', "%lld"),
            values[refusal.matches('\0').count()],
        );
    }

    /// What is promised to be only read lies apart from what is written.
    pub(super) fn check_apart(&self, text: &mut String) {
        let reach = |tensor: &Tensor<'_>| {
            let name = &tensor.parameter.name;
            let mut elements = "1".to_owned();
            for dimension in 0..tensor.extents.len() {
                elements = format!(
                    "tk_add(&bad, {elements}, tk_mul(&bad, tk_sub(&bad, {name}_shape_{dimension}, 1), {name}_stride_{dimension}))"
                );
            }
            format!(
                "(uint64_t)tk_mul(&bad, {elements}, {})",
                tensor.parameter.role.data_type().bytes()
            )
        };
        let empty = |tensor: &Tensor<'_>| {
            let name = &tensor.parameter.name;
            let extents = (0..tensor.extents.len()).map(|at| format!(" && {name}_shape_{at}"));
            extents.collect::<String>()
        };
        for read in self
            .tensors
            .iter()
            .filter(|tensor| tensor.parameter.is_readonly)
        {
            for written in self
                .tensors
                .iter()
                .filter(|tensor| tensor.parameter.is_written)
            {
                let (a, b) = (
                    c_name(&read.parameter.name),
                    c_name(&written.parameter.name),
                );
                let _ = writeln!(
                    text,
                    "  if (1{}{} && args->{a} < args->{b} + {} && args->{b} < args->{a} + {})\n    return tk_fail(&kernel, TK_ERROR_VALUE, \
                     \"{a} and {b} overlap; the kernel relies on {a} not changing while it runs: pass a copy\");",
                    empty(read),
                    empty(written),
                    reach(written),
                    reach(read),
                );
            }
        }
    }
}

/// What an integer of fewer than 64 bits can hold.
pub(super) fn range(data_type: DataType) -> Option<(i64, i64)> {
    let (least, most) = data_type.integers()?;
    (data_type != DataType::I64).then_some((least, most))
}

pub(super) fn check_parameter(text: &mut String, parameter: &Parameter) {
    let (name, divisor) = (&parameter.name, parameter.divisor);
    let Role::Scalar { data_type, rule } = &parameter.role else {
        let field = format!("args->{}", c_name(name));
        if divisor > 1 {
            let _ = writeln!(
                text,
                "  if ({field} % {divisor}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is at address 0x%llx; it must be at a multiple of {divisor}\", (unsigned long long){field});"
            );
        }
        return;
    };
    let value = match rule {
        Some(_) => format!("v_{name}"),
        None => format!("args->{}", c_name(name)),
    };
    if rule.is_some()
        && let Some((least, most)) = range(*data_type)
    {
        let _ = writeln!(
            text,
            "  if ({value} < {least} || {value} > {most}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is %lld, which {data_type} cannot hold\", (long long){value});"
        );
    }
    if divisor > 1 && data_type.is_integer() {
        let (place, cast) = match data_type {
            DataType::U64 => ("%llu", "unsigned long long"),
            _ => ("%lld", "long long"),
        };
        let _ = writeln!(
            text,
            "  if ({value} % {divisor}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is {place}; it must be a multiple of {divisor}\", ({cast}){value});"
        );
    }
}
