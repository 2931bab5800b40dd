//! How a launch reads sizes, computes scalars and packs parameters, in C.

use std::fmt::Write;

use launch::{DataType, Expression, Map, Operator, Part, Role};

use super::{Tensor, Unit, c_name, c_type};

/// Ends a launch whose rules have no value.
pub(super) const NO_VALUE: &str = "if (bad) return tk_fail(&kernel, TK_ERROR_VALUE, \"a rule of the signature has no value of 64 bits for these sizes\");";

impl Unit<'_> {
    /// Sizes, extents and strides as variables.
    pub(super) fn bind(&self, text: &mut String) {
        let mut variable = |name: &str, value: &str| {
            let _ = writeln!(text, "  const int64_t {name} = {value};");
        };
        for size in self.manifest.sizes() {
            variable(&format!("s_{size}"), &format!("args->{}", c_name(size)));
        }
        for tensor in &self.tensors {
            let name = &tensor.parameter.name;
            for (dimension, extent) in tensor.extents.iter().enumerate().rev() {
                let value = match extent {
                    Some(extent) => self.value(extent),
                    None => format!("args->{name}_shape_{dimension}"),
                };
                variable(&format!("{name}_shape_{dimension}"), &value);
                let dense = if dimension + 1 == tensor.extents.len() {
                    "1".to_owned()
                } else {
                    let inner = dimension + 1;
                    format!("tk_mul(&bad, {name}_shape_{inner}, {name}_stride_{inner})")
                };
                let field = format!("args->{name}_stride_{dimension}");
                let stride = if self.is_free(tensor, dimension) {
                    format!("{field} == TK_STRIDE_ZERO ? 0 : {field} ? {field} : {dense}")
                } else {
                    dense
                };
                variable(&format!("{name}_stride_{dimension}"), &stride);
            }
        }
        for parameter in &self.manifest.parameters {
            if let Role::Scalar {
                rule: Some(rule), ..
            } = &parameter.role
            {
                variable(&format!("v_{}", parameter.name), &self.value(rule));
            }
        }
    }

    /// The parameters as variables, and the launch.
    pub(super) fn pack(&self, text: &mut String) {
        let grid = match &self.manifest.grid {
            Some(grid) => grid.iter().map(|count| self.value(count)).collect(),
            None => ["x", "y", "z"]
                .map(|axis| format!("args->grid_{axis}"))
                .to_vec(),
        };
        let _ = writeln!(
            text,
            "  {{\n    int64_t grid[3];\n    void *parameters[{}];",
            self.manifest.parameters.len().max(1)
        );
        for parameter in &self.manifest.parameters {
            let name = &parameter.name;
            let _ = match &parameter.role {
                Role::TensorMap { .. } => {
                    writeln!(text, "    uint64_t p_{name}[TK_MAP_BYTES / 8];")
                }
                Role::Pointer { .. } => {
                    writeln!(text, "    uint64_t p_{name} = args->{};", c_name(name))
                }
                Role::Scalar {
                    data_type,
                    rule: Some(_),
                } => {
                    writeln!(
                        text,
                        "    {ty} p_{name} = ({ty})v_{name};",
                        ty = c_type(*data_type)
                    )
                }
                Role::Scalar {
                    data_type,
                    rule: None,
                } => {
                    writeln!(
                        text,
                        "    {} p_{name} = args->{};",
                        c_type(*data_type),
                        c_name(name)
                    )
                }
            };
        }
        for (at, count) in grid.iter().enumerate() {
            let _ = writeln!(text, "    grid[{at}] = {count};");
        }
        let _ = writeln!(text, "    {NO_VALUE}");
        text.push_str(
            "    if (!grid[0] || !grid[1] || !grid[2]) return 0;\n    parameters[0] = NULL;\n",
        );
        for (at, parameter) in self.manifest.parameters.iter().enumerate() {
            let is_map = matches!(parameter.role, Role::TensorMap { .. });
            let address = if is_map { "" } else { "&" };
            let _ = writeln!(
                text,
                "    parameters[{at}] = {address}p_{};",
                parameter.name
            );
        }
        for tensor in &self.tensors {
            self.map(text, tensor);
        }
        let overlaps = if self.manifest.waits_for_previous {
            "args->overlaps_previous"
        } else {
            "0"
        };
        let _ = writeln!(
            text,
            "    (void)code;\n    return tk_launch(&module->core, &kernel, grid, stream, {overlaps}, parameters);\n  }}"
        );
    }

    /// An expression in C.
    pub(super) fn value(&self, expression: &Expression) -> String {
        match expression {
            Expression::Number(number) => format!("INT64_C({number})"),
            Expression::Multiprocessors => "module->core.multiprocessors".to_owned(),
            Expression::Extent(tensor, at) => format!("{tensor}_shape_{at}"),
            Expression::Stride(tensor, at) => format!("{tensor}_stride_{at}"),
            Expression::Name(name) if self.manifest.sizes().contains(&name.as_str()) => {
                format!("s_{name}")
            }
            Expression::Name(name) => self.argument(name),
            Expression::Pair(operator, pair) => {
                let [a, b] = &**pair;
                let function = match operator {
                    Operator::Add => "add",
                    Operator::Subtract => "sub",
                    Operator::Multiply => "mul",
                    Operator::Divide => "div",
                    Operator::Remainder => "rem",
                    Operator::CeilDivide => "cdiv",
                    Operator::Min => "min",
                    Operator::Max => "max",
                };
                format!("tk_{function}(&bad, {}, {})", self.value(a), self.value(b))
            }
        }
    }
}

impl Unit<'_> {
    /// A number that the caller passes, as one with a sign.
    fn argument(&self, name: &str) -> String {
        let field = format!("args->{}", c_name(name));
        let mut parameters = self.manifest.parameters.iter();
        let found = parameters.find(|parameter| parameter.name == name);
        match found.map(|parameter| parameter.role.data_type()) {
            Some(DataType::U64) => format!("tk_unsigned(&bad, {field})"),
            _ => format!("(int64_t){field}"),
        }
    }

    /// Has the driver make a tensor's map.
    fn map(&self, text: &mut String, tensor: &Tensor<'_>) {
        let Role::TensorMap { map, .. } = &tensor.parameter.role else {
            return;
        };
        let name = &tensor.parameter.name;
        let all = |what: &str| {
            let all = (0..tensor.extents.len()).map(|at| format!("{name}_{what}_{at}"));
            all.collect::<Vec<_>>().join(", ")
        };
        let cut = self.cut(map);
        let rank = tensor.extents.len();
        let (part, [least, most]) = match &map.part {
            Part::Box(extents) => (extents.clone(), [0; 2]),
            Part::Pixels(pixels) => (vec![pixels.pixels, pixels.channels], pixels.corners),
        };
        let extents: Vec<String> = part.iter().map(u32::to_string).collect();
        let swizzle = map
            .swizzle_bytes
            .checked_ilog2()
            .map_or(0, |log| log.saturating_sub(4));
        let _ = writeln!(
            text,
            "    {{\n      tk_tensor tensor = {{\"{name}\", 0, {rank}, {{0}}, {{0}}, {{{box_extents}}}, {data_type}, {bytes}, {swizzle}, {{1, 1, 1, 1, 1}}, \
             {has_window}, {{{{0}}, {{0}}}}, {{{least}, {most}}}}};\n      const int64_t shape[] = {{{shape}}}, strides[] = {{{strides}}};\n      \
             tensor.address = args->{field};\n      memcpy(tensor.shape, shape, sizeof shape);\n      memcpy(tensor.strides, strides, sizeof \
             strides);\n{cut}      code = tk_tensor_map(&module->core, &kernel, &tensor, p_{name});\n      if (code) return code;\n    }}",
            has_window = i32::from(matches!(map.part, Part::Pixels(_))),
            box_extents = extents.join(", "),
            data_type = map.data_type.in_tensor_map() as u32,
            bytes = map.data_type.bytes(),
            shape = all("shape"),
            strides = all("stride"),
            field = c_name(name),
        );
    }

    /// The lines that give a map its steps and the corners of its window.
    fn cut(&self, map: &Map) -> String {
        let mut text = String::new();
        let mut line = |field: &str, at: usize, rule: &Expression| {
            let _ = writeln!(text, "      tensor.{field}[{at}] = {};", self.value(rule));
        };
        for (at, rule) in map.steps.iter().flatten().enumerate() {
            line("steps", at, rule);
        }
        if let Part::Pixels(pixels) = &map.part {
            for (corner, rules) in [&pixels.lower, &pixels.upper].into_iter().enumerate() {
                for (at, rule) in rules.iter().enumerate() {
                    line(&format!("corners[{corner}]"), at, rule);
                }
            }
        }
        if !text.is_empty() {
            let _ = writeln!(text, "      {NO_VALUE}");
        }
        text
    }
}
