// Sets the chosen colours before anything is drawn; so it is no module.
try {
  const theme = localStorage.getItem("voxyard.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the system's choice stands.
}
