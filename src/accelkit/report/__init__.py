"""What people and programs read: inspections, accounting checks, tables."""
