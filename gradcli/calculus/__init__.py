"""Graph to graph: shapes are settled (`specialise`), derivatives appended (`adjoint`), work removed (`simplify`)."""
