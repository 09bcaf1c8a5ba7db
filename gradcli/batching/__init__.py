"""A model over rows.

Which columns bind which names (`bind`), what is asked (`plan`), one chunk (`work`), the whole (`run`).
"""
