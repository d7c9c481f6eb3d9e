//! A few values of one quantity.

/// The median and the range of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The smallest value.
    pub min: f64,
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some values, or `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { min: *values.first()?, median: f64::midpoint(lower, upper), max: *values.last()? })
    }

    /// Returns whether no value results from a division by 0.
    pub fn is_finite(&self) -> bool {
        self.min.is_finite() && self.max.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(Spread::of([5.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 5.0 }));
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        assert_eq!(Spread::of([5.0, 1.0, 2.0, 4.0]), Some(Spread { min: 1.0, median: 3.0, max: 5.0 }));
    }

    #[test]
    fn one_value_is_all_three() {
        assert_eq!(Spread::of([7.0]), Some(Spread { min: 7.0, median: 7.0, max: 7.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
