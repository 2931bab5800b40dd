//! From an [`Instance`](super::plan::Instance) to its kernel: the one place that lists the const generics of all.

/// Evaluates an expression with the kernel of an instance, of elements of type `$t`: `many $name => ..` for one of
/// [`many_tiles`](super::many_tiles::many_tiles), `few $name => ..` for one of [`few_tiles`](super::few_tiles::few_tiles).
macro_rules! with_instance {
    ($t:ty, $instance:expr, many $many:ident => $with_many:expr, few $few:ident => $with_few:expr) => {
        match $instance {
            $crate::products::plan::Instance::Many {
                groups,
                rows,
                columns,
            } => {
                macro_rules! tile {
                    ($groups:literal, $rows:literal, $columns:literal, $stages:literal) => {{
                        let $many = $crate::products::many_tiles::many_tiles::<
                            $t,
                            $groups,
                            $rows,
                            $columns,
                            $stages,
                        >;
                        $with_many
                    }};
                }
                match (groups, rows, columns) {
                    (2, 64, 256) => tile!(2, 64, 256, 4),
                    (3, 64, 192) => tile!(3, 64, 192, 3),
                    (2, 128, 160) => tile!(2, 128, 160, 3),
                    (2, 64, 192) => tile!(2, 64, 192, 4),
                    (3, 64, 176) => tile!(3, 64, 176, 3),
                    _ => tile!(2, 64, 128, 6),
                }
            }
            $crate::products::plan::Instance::Few {
                ctas,
                groups,
                columns,
                turned,
            } => {
                macro_rules! tile {
                    ($ctas:literal, $groups:literal, $columns:literal, $stages:literal, $turned:literal) => {{
                        let $few = $crate::products::few_tiles::few_tiles::<
                            $t,
                            $ctas,
                            $groups,
                            $columns,
                            $stages,
                            $turned,
                        >;
                        $with_few
                    }};
                    ($groups:literal, $columns:literal, $stages:literal, $turned:literal) => {
                        match ctas {
                            1 => tile!(1, $groups, $columns, $stages, $turned),
                            2 => tile!(2, $groups, $columns, $stages, $turned),
                            4 => tile!(4, $groups, $columns, $stages, $turned),
                            _ => tile!(8, $groups, $columns, $stages, $turned),
                        }
                    };
                }
                match (groups, columns, turned) {
                    (1, 16, true) => tile!(1, 16, 8, true),
                    (1, 32, true) => tile!(1, 32, 8, true),
                    (1, 64, true) => tile!(1, 64, 8, true),
                    (1, 16, false) => tile!(1, 16, 8, false),
                    (1, 32, false) => tile!(1, 32, 8, false),
                    (1, 64, false) => tile!(1, 64, 8, false),
                    (1, 128, false) => tile!(1, 128, 6, false),
                    _ if ctas == 1 => tile!(1, 2, 128, 6, false),
                    _ => tile!(2, 128, 3, false),
                }
            }
        }
    };
}

pub(super) use with_instance;
