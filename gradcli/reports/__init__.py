"""Results, graphs and the table as text. One file per report; none knows another."""
